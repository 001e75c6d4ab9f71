// The `data` section of a run file to start from: made-up samples, with which the file runs
// unchanged, and a comment on how to use real data.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/source.h"
#include "graph/slot.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/schema.h"
#include "trainer/propose/choices.h"

namespace plimsoll::trainer {
namespace {

// The sources that fill the model's inputs; those that can make up samples come first.
std::vector<std::string> SourcesOf(const models::Model& model) {
  if (model.text_sizes()) return {data::kTokens};
  std::vector<graph::Slot> slots;
  for (const auto& [name, type] : model.inputs()) {
    // Whether the input's first dimension is the batch.
    const bool of_samples = type.shape.rank() > 0 && type.shape.dim(0) == 1;
    if (of_samples) slots.push_back({name, type, {}});
  }
  std::vector<std::string> names = data::SourcesThatFill(slots);
  std::ranges::stable_partition(
      names, [](const std::string& name) { return data::FindSource(name)->made_up.has_value(); });
  return names;
}

bool HasKey(const std::string& source, const std::string& path) {
  const config::Key* const key = config::FindKey(path);
  // Unknown keys, and keys of all sources, are checked elsewhere.
  if (key == nullptr || key->owners.empty()) return true;
  return std::ranges::find(key->owners, source) != key->owners.end();
}

// For each source that reads files, the settings for real data: "{train: …, tokenizer: …}".
std::vector<std::string> Examples(const models::Model& model, const std::string& tokenizer) {
  std::vector<std::string> examples;
  for (const std::string& source : SourcesOf(model)) {
    const data::SourceKind* const kind = data::FindSource(source);
    std::string text = kind == nullptr ? "train: examples.jsonl, tokenizer: FOLDER" : kind->example;
    if (text.empty()) continue;
    if (kind != nullptr) text = fmt::format("source: {}, {}", source, text);
    const size_t folder = text.find("tokenizer: FOLDER");
    if (folder != text.npos && !tokenizer.empty()) {
      text = text.substr(0, folder) + "tokenizer: " + tokenizer;
    }
    examples.push_back(fmt::format("{{{}}}", text));
  }
  return examples;
}

}  // namespace

std::string SourceFor(const models::Model& model, std::span<const std::string> keys,
                      const std::string& own) {
  std::vector<std::string> sources = SourcesOf(model);
  std::ranges::stable_partition(sources, [&](const std::string& name) { return name == own; });
  for (const std::string& source : sources) {
    if (std::ranges::all_of(keys, [&](const auto& key) { return HasKey(source, key); })) {
      return source;
    }
  }
  return "";
}

void ChooseSampleData(const models::Model& model, const std::string& tokenizer, Choices& choices) {
  const config::RunConfig& base = choices.base();
  if (!config::MakesUpData(base)) return;
  const data::SourceKind* const kind = data::FindSource(base.data.source);
  const std::string why =
      fmt::format("Made-up samples, so that this file runs as it is. For your own write data: {}.",
                  fmt::join(Examples(model, tokenizer), ", or "));
  if (kind != nullptr) choices.Set("data.source", base.data.source, why);
  if (kind == nullptr) choices.Set("data.synthetic", "true", why);
}

}  // namespace plimsoll::trainer
