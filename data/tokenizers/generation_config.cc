#include "data/tokenizers/generation_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;
using formats::Harmless;
using formats::JsonObject;
using formats::KeyRule;

constexpr const char* kDraws =
    "how transformers draws tokens; plimsoll generate draws as its own options say";
constexpr const char* kSearch = "searches of transformers; plimsoll generate draws token by token";
constexpr const char* kLength = "plimsoll generate --tokens says it";
constexpr const char* kSpeed = "how transformers computes, not what";
constexpr const char* kOutput = "what transformers returns besides texts";
constexpr const char* kTokens = "config.json and the tokenizer's files name these tokens";
constexpr const char* kWrittenBy = "where the file comes from";

constexpr KeyRule kGenerationRules[] = {
    formats::Read("eos_token_id"),
    Harmless("bos_token_id", kTokens),
    Harmless("pad_token_id", kTokens),
    Harmless("decoder_start_token_id", kTokens),

    Harmless("max_length", kLength),
    Harmless("max_new_tokens", kLength),
    Harmless("min_length", kLength),
    Harmless("min_new_tokens", kLength),
    Harmless("max_time", kLength),
    Harmless("stop_strings", "plimsoll generate --stop says it"),

    Harmless("do_sample", kDraws),
    Harmless("temperature", kDraws),
    Harmless("top_k", kDraws),
    Harmless("top_p", kDraws),
    Harmless("min_p", kDraws),
    Harmless("top_h", kDraws),
    Harmless("typical_p", kDraws),
    Harmless("epsilon_cutoff", kDraws),
    Harmless("eta_cutoff", kDraws),
    Harmless("repetition_penalty", kDraws),
    Harmless("encoder_repetition_penalty", kDraws),
    Harmless("no_repeat_ngram_size", kDraws),
    Harmless("encoder_no_repeat_ngram_size", kDraws),
    Harmless("bad_words_ids", kDraws),
    Harmless("renormalize_logits", kDraws),
    Harmless("remove_invalid_values", kDraws),
    Harmless("forced_bos_token_id", kDraws),
    Harmless("forced_eos_token_id", kDraws),
    Harmless("forced_decoder_ids", kDraws),
    Harmless("exponential_decay_length_penalty", kDraws),
    Harmless("suppress_tokens", kDraws),
    Harmless("begin_suppress_tokens", kDraws),
    Harmless("sequence_bias", kDraws),
    Harmless("token_healing", kDraws),
    Harmless("guidance_scale", kDraws),
    Harmless("watermarking_config", kDraws),
    Harmless("dola_layers", kDraws),

    Harmless("num_beams", kSearch),
    Harmless("num_beam_groups", kSearch),
    Harmless("early_stopping", kSearch),
    Harmless("length_penalty", kSearch),
    Harmless("diversity_penalty", kSearch),
    Harmless("penalty_alpha", kSearch),
    Harmless("constraints", kSearch),
    Harmless("force_words_ids", kSearch),
    Harmless("num_return_sequences", "plimsoll generate --count says it"),

    Harmless("use_cache", kSpeed),
    Harmless("cache_implementation", kSpeed),
    Harmless("cache_config", kSpeed),
    Harmless("max_cache_len", kSpeed),
    Harmless("return_legacy_cache", kSpeed),
    Harmless("low_memory", kSpeed),
    Harmless("prefill_chunk_size", kSpeed),
    Harmless("compile_config", kSpeed),
    Harmless("disable_compile", kSpeed),
    Harmless("continuous_batching_config", kSpeed),
    Harmless("chat_format", "how chats become texts, which Plimsoll doesn't do here"),
    Harmless("max_window_size", "how chats become texts, which Plimsoll doesn't do here"),
    Harmless("use_mtp", kSpeed),
    Harmless("is_assistant", kSpeed),
    Harmless("num_assistant_tokens", kSpeed),
    Harmless("num_assistant_tokens_schedule", kSpeed),
    Harmless("assistant_*", kSpeed),
    Harmless("target_lookbehind", kSpeed),
    Harmless("speculation_type", kSpeed),
    Harmless("prompt_lookup_num_tokens", kSpeed),
    Harmless("max_matching_ngram_size", kSpeed),

    Harmless("output_*", kOutput),
    Harmless("return_dict_in_generate", kOutput),
    Harmless("generation_kwargs", kOutput),

    Harmless("_from_model_config", kWrittenBy),
    Harmless("_commit_hash", kWrittenBy),
    Harmless("transformers_version", kWrittenBy),
    Harmless("trust_remote_code", kWrittenBy),
};

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

std::span<const KeyRule> GenerationConfigRules() { return kGenerationRules; }

std::vector<int64_t> EndTokensOf(const JsonObject& file) {
  constexpr const char* kKey = "eos_token_id";
  if (!file.Has(kKey)) return {};
  std::vector<int64_t> ids = file.json().at(kKey).is_array()
                                 ? file.RequireInts(kKey)
                                 : std::vector<int64_t>{file.RequireInt(kKey)};
  std::erase_if(ids, [](int64_t id) { return id < 0; });  // some files use a negative id for "none"
  return ids;
}

JsonObject ReadGenerationConfig(const std::string& folder) {
  const fs::path path = fs::path(folder) / kGenerationFile;
  if (!IsFile(path)) return JsonObject::FromText("{}", path);
  JsonObject file = JsonObject::FromFile(path);
  CheckKeys(file, kGenerationRules, formats::UnknownKeys::kNamed);
  return file;
}

std::vector<int64_t> EndTokensIn(const std::string& folder) {
  std::vector<int64_t> ends;
  const auto add = [&](const JsonObject& file) {
    for (const int64_t id : EndTokensOf(file)) {
      if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
    }
  };
  const fs::path config = fs::path(folder) / "config.json";
  if (IsFile(config)) add(JsonObject::FromFile(config));
  add(ReadGenerationConfig(folder));
  return ends;
}

}  // namespace plimsoll::data
