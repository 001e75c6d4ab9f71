#include "trainer/save_and_resume/earlier_defaults.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/tokenizers/tokenizer.h"
#include "trainer/config/schema.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {
namespace {

struct EarlierDefault {
  const char* key;
  const char* value;
};
// Earlier versions read examples in windows, put no token before texts, and applied the model's
// dropout to preferences.
constexpr EarlierDefault kEarlier[] = {
    {"data.packing", "concatenate"}, {"data.begin", "none"}, {"preference.dropout", "model"}};
constexpr EarlierDefault kOnlyWays[] = {{"data.too_long", "truncate"},
                                        {"data.documents", "joined"}};

// Sets the key to the earlier value if the file leaves it open; returns whether that changes it.
bool Keep(const EarlierDefault& earlier, config::RunConfig& run) {
  const config::Key& key = *config::FindKey(earlier.key);
  if (!key.Applies(run) || run.IsSet(earlier.key) || key.Text(run) == earlier.value) return false;
  key.set(run, config::Value(std::string(earlier.value)));
  ResolveAdapter(run);  // the rate that the run takes from its adapter
  if (run.data.packing == config::Packing::kConcatenate) {
    run.data.too_long = config::TooLong::kTruncate;
  }
  return true;
}

// Whether the run's tokenizer asks for a token before texts, so that data.begin matters.
bool AsksForBegin(const config::DataConfig& data) {
  return !data.tokenizer.empty() && !data::LoadTokenizer(data.tokenizer)->facts().begins.empty();
}

}  // namespace

void AddEarlierDefaults(std::map<std::string, std::string>& saved) {
  for (const EarlierDefault& earlier : kEarlier) {
    const config::Key& key = *config::FindKey(earlier.key);
    const auto when = saved.find(key.when_key);
    const bool applies = key.when_key.empty() ||
                         (when != saved.end() && std::ranges::find(key.when_values, when->second) !=
                                                     key.when_values.end());
    if (applies) saved.try_emplace(earlier.key, earlier.value);
  }
  for (const EarlierDefault& only : kOnlyWays) saved.try_emplace(only.key, only.value);
}

std::vector<std::string> KeepEarlierDefaults(config::RunConfig& run,
                                             const std::map<std::string, std::string>& saved) {
  std::vector<std::string> lines;
  for (const EarlierDefault& earlier : kEarlier) {
    const auto found = saved.find(earlier.key);
    if (found == saved.end() || found->second != earlier.value || !Keep(earlier, run)) continue;
    if (earlier.key == std::string_view("data.begin") && !AsksForBegin(run.data)) continue;
    lines.push_back(fmt::format("{}: {}", earlier.key, earlier.value));
  }
  return lines;
}

void KeepStoredDefaults(config::RunConfig& stored) {
  for (const EarlierDefault& earlier : kEarlier) Keep(earlier, stored);
}

}  // namespace plimsoll::trainer
