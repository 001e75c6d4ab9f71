#include "models/config_keys.h"

#include <algorithm>
#include <string_view>

namespace plimsoll::models {
namespace {

using formats::Harmless;
using formats::KeyRule;
using formats::Read;
using formats::Refused;

constexpr std::string_view kOfPython = "it says how transformers runs the model";
constexpr std::string_view kOfGeneration = "plimsoll generate has options for it";
constexpr std::string_view kOfTokenizer = "the tokenizer's files say it";
constexpr std::string_view kOfClasses = "the model tells no classes apart";
constexpr std::string_view kOtherModel = "the supported models have no such part";

// Keys of transformers' PretrainedConfig, versions 4 and 5, and keys that users commonly add.
constexpr KeyRule kOfAllModels[] = {
    Read("model_type"),
    Refused("quantization_config",
            "quantised checkpoints are not read; save the model in 16 or 32 bits"),
    Refused(
        "auto_map",
        "it names code of the checkpoint's own; if transformers' model of this model_type gives "
        "the same numbers, remove it"),
    Refused("is_encoder_decoder", kOtherModel),
    Refused("cross_attention_hidden_size", kOtherModel),
    Refused("tie_encoder_decoder", kOtherModel),
    Refused("add_cross_attention", kOtherModel),
    Refused("pruned_heads", "save the model with heads of equal number in all layers"),
    Harmless("_*", "transformers notes it for itself"),
    Harmless("architectures", "the tensors say which head there is"),
    Harmless("transformers_version", "it says what wrote the file"),
    Harmless("unsloth_*", "it says what wrote the file"),
    Harmless("transformers.js_config", "it says how a browser runs the model"),
    Harmless("sentence_transformers", "what comes after the model's own numbers"),
    Harmless("sbert_ce_default_activation_function", "what comes after the model's own numbers"),
    Harmless("language", "a note of its trainer"),
    Harmless("name", "a note of its trainer"),
    Harmless("adapters", "adapters have files of their own"),
    Harmless("neftune_noise_alpha", "noise in another program's training"),
    Harmless("loss_type", "the model's task says it"),
    Harmless("model_max_length", kOfTokenizer),
    Harmless("max_seq_length", "model.sequence says it"),
    Harmless("pad_token", kOfTokenizer),
    Harmless("use_flash_attention_2", kOfPython),
    Harmless("torch_dtype", "the files of weights say their types, and amp.dtype the run's"),
    Harmless("dtype", "the files of weights say their types, and amp.dtype the run's"),
    Harmless("use_cache", kOfPython),
    Harmless("output_attentions", kOfPython),
    Harmless("output_hidden_states", kOfPython),
    Harmless("output_past", kOfPython),
    Harmless("return_dict", kOfPython),
    Harmless("torchscript", kOfPython),
    Harmless("use_bfloat16", kOfPython),
    Harmless("tf_legacy_loss", kOfPython),
    Harmless("xla_device", kOfPython),
    Harmless("attn_implementation", kOfPython),
    Harmless("gradient_checkpointing", kOfPython),
    Harmless("chunk_size_feed_forward", "the same products in slices"),
    Harmless("finetuning_task", "a note of its trainer"),
    Harmless("task_specific_params", kOfGeneration),
    Harmless("prefix",
             "pipelines put it before prompts, and plimsoll generate takes them as given"),
    Harmless("tokenizer_class", kOfTokenizer),
    Harmless("pad_token_id", kOfTokenizer),
    Harmless("sep_token_id", kOfTokenizer),
    Harmless("cls_token_id", kOfTokenizer),
    Harmless("mask_token_id", kOfTokenizer),
    Harmless("unk_token_id", kOfTokenizer),
    Harmless("bos_token_id", kOfTokenizer),
    Harmless("eos_token_id", kOfTokenizer),
    Harmless("decoder_start_token_id", "an encoder and decoder alone have it"),
    Harmless("is_decoder", "the family says whether tokens see later ones"),
    Harmless("tie_word_embeddings", "the model has no head over its vocabulary"),
    Read("id2label"),
    Harmless("label2id", "id2label says it"),
    Harmless("num_labels", kOfClasses),
    Harmless("problem_type", kOfClasses),
    Harmless("max_length", kOfGeneration),
    Harmless("min_length", kOfGeneration),
    Harmless("do_sample", kOfGeneration),
    Harmless("early_stopping", kOfGeneration),
    Harmless("num_beams", kOfGeneration),
    Harmless("num_beam_groups", kOfGeneration),
    Harmless("diversity_penalty", kOfGeneration),
    Harmless("temperature", kOfGeneration),
    Harmless("top_k", kOfGeneration),
    Harmless("top_p", kOfGeneration),
    Harmless("typical_p", kOfGeneration),
    Harmless("repetition_penalty", kOfGeneration),
    Harmless("length_penalty", kOfGeneration),
    Harmless("no_repeat_ngram_size", kOfGeneration),
    Harmless("encoder_no_repeat_ngram_size", kOfGeneration),
    Harmless("bad_words_ids", kOfGeneration),
    Harmless("num_return_sequences", kOfGeneration),
    Harmless("output_scores", kOfGeneration),
    Harmless("return_dict_in_generate", kOfGeneration),
    Harmless("forced_bos_token_id", kOfGeneration),
    Harmless("forced_eos_token_id", kOfGeneration),
    Harmless("remove_invalid_values", kOfGeneration),
    Harmless("exponential_decay_length_penalty", kOfGeneration),
    Harmless("suppress_tokens", kOfGeneration),
    Harmless("begin_suppress_tokens", kOfGeneration),
};

}  // namespace

std::vector<KeyRule> Joined(std::vector<KeyRule> to, const std::vector<KeyRule>& more) {
  to.insert(to.end(), more.begin(), more.end());
  return to;
}

std::vector<KeyRule> ConfigKeys(const Family& family) {
  std::vector<KeyRule> keys = family.config_keys;
  if (!family.read_config) {
    for (const Setting& setting : family.settings) keys.push_back(Read(setting.name));
  }
  // A family's rule takes precedence over the general one.
  for (const KeyRule& rule : kOfAllModels) {
    const auto is_own = [&](const KeyRule& own) { return own.key == rule.key; };
    if (std::ranges::none_of(keys, is_own)) keys.push_back(rule);
  }
  return keys;
}

std::vector<KeyRule> LanguageKeys() {
  return {Read("bos_token_id"), Read("eos_token_id"), Read("initializer_range"),
          Read("tie_word_embeddings"), Read("vocab_size")};
}

std::vector<KeyRule> EncoderKeys() {
  return {
      Read("num_hidden_layers"), Read("hidden_size"),         Read("num_attention_heads"),
      Read("intermediate_size"), Read("layer_norm_eps"),      Read("initializer_range"),
      Read("hidden_act"),        Read("hidden_dropout_prob"), Read("attention_probs_dropout_prob")};
}

std::vector<KeyRule> ClassifierKeys() { return {Read("num_labels"), Read("problem_type")}; }

}  // namespace plimsoll::models
