#include "data/texts/text_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace plimsoll::data {

std::vector<Setting> TextFileSettings() {
  const SettingValue no_files = std::vector<std::string>();
  return {{.name = "train",
           .type = Setting::Type::kStringList,
           .doc = "Files to train on.",
           .default_value = no_files,
           .derived = "required"},
          {.name = "eval",
           .type = Setting::Type::kStringList,
           .doc = "Files to evaluate on.",
           .default_value = no_files},
          {.name = "exclude",
           .type = Setting::Type::kStringList,
           .doc = "Globs of files to leave out.",
           .default_value = no_files},
          {.name = "tokenizer",
           .type = Setting::Type::kString,
           .doc = "A WordPiece vocabulary, or another tokenizer with BERT's special tokens.",
           .default_value = std::string(),
           .derived = "required"},
          {.name = "eval_fraction",
           .type = Setting::Type::kFloat,
           .doc = "Part of the documents that is held out.",
           .default_value = 0.0,
           .min = 0,
           .max = 1,
           .below_max = true},
          {.name = "document_separator",
           .type = Setting::Type::kString,
           .doc = "A line that parts documents.",
           .default_value = std::string()}};
}

bool HoldsOutText(const Settings& settings) {
  return !settings.List("eval").empty() || settings.Float("eval_fraction") > 0;
}

DataOptions TextFilesFrom(const Settings& settings, int64_t vocab) {
  DataOptions options;
  if (!settings.List("train").empty()) options.train.push_back({settings.List("train")});
  options.eval = settings.List("eval");
  options.exclude = settings.List("exclude");
  options.tokenizer = settings.Text("tokenizer");
  options.split.delimiter = settings.Text("document_separator");
  options.split.eval_fraction = settings.Float("eval_fraction");
  options.vocab = vocab;
  options.text_tokens.begins = false;  // these sources place markers of their own
  return options;
}

MarkerTokens MarkersOf(const Tokenizer& tokenizer, const std::string& name, bool needs_mask) {
  MarkerTokens markers;
  if (tokenizer.facts().pads_left) {
    throw SettingError("tokenizer",
                       fmt::format("{} says padding_side: left, and padding is put after texts "
                                   "only; remove the key from its tokenizer_config.json",
                                   name));
  }
  const auto add = [&](const char* role, std::string_view bert, std::string_view roberta,
                       bool needed) -> int32_t {
    std::optional<int32_t> id = tokenizer.Named(role);
    if (!id) id = tokenizer.TokenId(bert);
    if (!id) id = tokenizer.TokenId(roberta);
    if (id) markers.special.push_back(*id);
    if (id || !needed) return id.value_or(-1);
    throw SettingError("tokenizer",
                       fmt::format("{} has no token {} (or {}); name a tokenizer made for BERT: "
                                   "plimsoll data wordpiece makes one of your text",
                                   name, bert, roberta));
  };
  markers.pad = add("pad_token", "[PAD]", "<pad>", true);
  markers.start = add("cls_token", "[CLS]", "<s>", true);
  markers.separator = add("sep_token", "[SEP]", "</s>", true);
  markers.mask = add("mask_token", "[MASK]", "<mask>", needs_mask);
  add("unk_token", "[UNK]", "<unk>", false);
  std::ranges::sort(markers.special);
  return markers;
}

}  // namespace plimsoll::data
