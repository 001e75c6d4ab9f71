#include "models/language_settings.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace plimsoll::models {
namespace {

// Upper bounds of settings in run files.
constexpr double kThousands = 1e5;
constexpr double kMillions = 1e7;

}  // namespace

std::vector<Setting> LanguageSettings() {
  using Type = Setting::Type;
  using Loaded = Setting::WithLoadedWeights;
  const std::string extend = "give it, or extend a file of configs/models";
  const auto rate = [](const char* name, const char* doc) -> Setting {
    return {.name = name,
            .type = Type::kFloat,
            .doc = doc,
            .derived = "`dropout`",
            .min = 0,
            .max = 1,
            .below_max = true,
            .with_loaded_weights = Loaded::kYes};
  };
  return {
      {.name = "layers",
       .doc = "Transformer blocks.",
       .required = extend,
       .min = 1,
       .max = kThousands},
      {.name = "width",
       .doc = "Width of the residual stream.",
       .required = extend,
       .min = 1,
       .max = kMillions},
      {.name = "heads", .doc = "Attention heads.", .required = extend, .min = 1, .max = kThousands},
      {.name = "kv_heads",
       .doc = "Key and value heads (grouped-query attention); divides `heads`.",
       .derived = "`heads`",
       .min = 1,
       .max = kThousands},
      {.name = "head_width",
       .doc = "Width of one attention head.",
       .derived = "`width` / `heads`",
       .min = 1,
       .max = kThousands},
      {.name = "ffn_width",
       .doc = "Hidden width of the feed-forward network.",
       .min = 1,
       .max = kMillions},
      {.name = "vocab",
       .doc = "Vocabulary: rows of the token embedding.",
       .derived = "required; with `data.tokenizer` its number of token ids",
       .required = "give the number of token ids, or data.tokenizer, which has it",
       .min = 1,
       .max = kMillions},
      {.name = "sequence",
       .doc = "Tokens per training sequence.",
       .required = "give the tokens per training sequence",
       .min = 1,
       .max = kMillions,
       .with_loaded_weights = Loaded::kYes},
      {.name = "max_sequence",
       .doc = "Longest sequence the model allows: rows of gpt2's position table, positions of a "
              "rotary embedding.",
       .derived = "`sequence`",
       .min = 1,
       .max = kMillions},
      {.name = "dropout",
       .type = Type::kFloat,
       .doc = "Dropout on embeddings, attention and residual branches.",
       .default_value = 0.0,
       .min = 0,
       .max = 1,
       .below_max = true,
       .with_loaded_weights = Loaded::kYes},
      rate("attention_dropout", "Dropout on attention's weights."),
      rate("hidden_dropout",
           "Dropout on residual branches; on embeddings, too, where `embedding_dropout` does not "
           "apply."),
      rate("embedding_dropout", "Dropout on embeddings."),
      {.name = "tied", .type = Type::kBool, .doc = "Output head shares the token embedding."},
      {.name = "attention_bias",
       .type = Type::kBool,
       .doc = "Bias on the query, key and value projections."},
      {.name = "activation",
       .type = Type::kChoice,
       .doc = "GELU by its tanh approximation or exact.",
       .default_value = std::string(kActivations[0]),
       .choices = {kActivations.begin(), kActivations.end()}},
      {.name = "norm_eps",
       .type = Type::kFloat,
       .doc = "Epsilon of layer and RMS norms.",
       .min = 0,
       .max = 1,
       .above_min = true,
       .below_max = true},
      {.name = "rope_theta",
       .type = Type::kFloat,
       .doc = "Base of the rotary embedding's wavelengths.",
       .min = 0,
       .above_min = true},
      {.name = "rope_type",
       .type = Type::kChoice,
       .doc =
           "`linear`: wavelengths of the rotary embedding are `rope_factor` times as long, as if "
           "positions were divided by it; `yarn`: only long ones are (in `config.json` "
           "`rope_scaling`).",
       .default_value = std::string("default"),
       .choices = {"default", "linear", "yarn"}},
      {.name = "rope_factor",
       .type = Type::kFloat,
       .doc = "By how much wavelengths are stretched.",
       .derived = "required with `rope_type: linear` and `yarn`",
       .min = 1,
       .max = 1e6,
       .when = "rope_type",
       .when_values = {"linear", "yarn"}},
      {.name = "rope_original_sequence",
       .doc = "Tokens of the longest texts before `rope_factor` (in `config.json` "
              "`original_max_position_embeddings`).",
       .derived = "required with `rope_type: yarn`",
       .min = 1,
       .max = kMillions,
       .when = "rope_type",
       .when_values = {"yarn"}},
      {.name = "rotary_width",
       .doc = "Elements of a head that the rotary embedding turns, an even number (in "
              "`config.json` as the share `partial_rotary_factor`).",
       .derived = "all of `head_width`",
       .min = 2,
       .max = kThousands},
      {.name = "window",
       .doc = "Keys that a query sees: its own and the latest before it (sliding window; in "
              "`config.json` `sliding_window`).",
       .derived = "none: all earlier ones",
       .min = 1,
       .max = kMillions},
      {.name = "window_pattern",
       .doc = "Each `window_pattern`-th block sees all earlier keys, the others those of `window` "
              "(in `config.json` `layer_types`).",
       .min = 1,
       .max = kThousands},
      {.name = "rope_local_base_freq",
       .type = Type::kFloat,
       .doc = "`rope_theta` of blocks with a window.",
       .min = 0,
       .above_min = true},
      {.name = "query_pre_attn_scalar",
       .doc = "Scores of attention are divided by its square root.",
       .derived = "`head_width`",
       .min = 1,
       .max = kMillions},
      {.name = "attn_logit_softcapping",
       .type = Type::kFloat,
       .doc = "Soft cap of attention's scores: s becomes cap · tanh(s / cap). 0: none.",
       .min = 0,
       .max = kMillions},
      {.name = "final_logit_softcapping",
       .type = Type::kFloat,
       .doc = "Soft cap of the logits. 0: none.",
       .min = 0,
       .max = kMillions},
      {.name = "init_std",
       .type = Type::kFloat,
       .doc = "Standard deviation of initial weights.",
       .default_value = 0.02,
       .min = 0,
       .max = 10},
  };
}

Setting LanguageSetting(const std::string& name, const std::string& derived) {
  for (Setting& setting : LanguageSettings()) {
    if (setting.name != name) continue;
    if (!derived.empty()) setting.derived = derived;
    return setting;
  }
  throw InternalError(fmt::format("no family of language models has '{}'", name));
}

Setting GrowingVocabulary() {
  Setting vocab = LanguageSetting("vocab");
  vocab.doc +=
      " With `init_from` at least the checkpoint's: rows of new tokens begin at the mean of its "
      "rows.";
  vocab.with_loaded_weights = Setting::WithLoadedWeights::kYes;
  return vocab;
}

Setting WithDefault(Setting setting, SettingValue value) {
  setting.default_value = std::move(value);
  return setting;
}

}  // namespace plimsoll::models
