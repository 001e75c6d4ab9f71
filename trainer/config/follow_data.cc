#include "trainer/config/follow_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/labels.h"
#include "data/source.h"
#include "data/texts/documents.h"
#include "data/texts/examples.h"
#include "data/tokens/token_file.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

constexpr const char* kClasses = "model.classes";

bool HoldsExamples(const std::vector<std::string>& patterns, const DataConfig& data) {
  std::vector<std::string> files = patterns;
  try {
    files = data::ExpandFiles(patterns, data.exclude, "data.train");
  } catch (const UserError&) {  // opening the files reports the error again
  }
  return std::ranges::all_of(files, &data::HoldsExamples);
}

}  // namespace

bool MissesData(const RunConfig& config) {
  std::vector<std::string> paths = config.data.eval;
  for (const TrainSource& source : config.data.train) {
    paths.insert(paths.end(), source.files.begin(), source.files.end());
  }
  const std::string& tokenizer = config.data.tokenizer;
  if (!tokenizer.empty() && tokenizer != "byte") paths.push_back(tokenizer);
  const std::string& chats = config.data.chat_template;
  if (!chats.empty() && chats != "chatml") paths.push_back(chats);
  const Settings& settings = config.data.settings;
  if (settings.Has("folder")) paths.push_back(settings.Text("folder"));
  return !std::ranges::all_of(paths, &data::MatchesAny);
}

std::optional<int64_t> ClassesOfData(const RunConfig& config) {
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  if (kind == nullptr || !kind->count_classes) return std::nullopt;
  const Settings& model = config.model.settings;
  const std::string problem = model.Has("problem_type") ? model.Text("problem_type") : "";
  if (problem == "regression") return std::nullopt;
  try {
    return kind->count_classes(config.data.settings, problem == "multi_label_classification"
                                                         ? data::LabelKind::kClasses
                                                         : data::LabelKind::kClass);
  } catch (const SettingError& error) {
    throw ErrorOf(config, "data", error);
  } catch (const UserError& error) {
    throw WithPlace(config, error);
  }
}

void FollowClasses(RunConfig& config) {
  const Key* const key = FindKey(kClasses);
  if (key == nullptr || !key->Applies(config) || config.IsSet(kClasses)) return;
  if (!config.model.init_from.empty()) return;
  std::optional<int64_t> classes;
  try {
    classes = ClassesOfData(config);
  } catch (const UserError& error) {
    if (!MissesData(config)) throw;
    throw UserError(
        fmt::format("{} (the number of classes follows from the data; without them give "
                    "{})",
                    error.what(), kClasses));
  }
  if (!classes) return;
  if (*classes < 2) {
    throw Missing(config, kClasses,
                  fmt::format("the data have {} class, and a model distinguishes two or more; give "
                              "more classes, or the number that the model has",
                              *classes));
  }
  config.model.settings.Set("classes", *classes);
}

void FollowExamples(RunConfig& config) {
  DataConfig& data = config.data;
  if (config.IsSet("data.packing") || data.synthetic || data.format != DataFormat::kText) return;
  // Stored attention scores cannot keep documents separate.
  if (config.model.attention == AttentionKind::kStored) return;
  const bool examples = std::ranges::all_of(
      data.train, [&](const TrainSource& source) { return HoldsExamples(source.files, data); });
  if (examples) data.packing = Packing::kBestFit;
}

void FollowBegins(RunConfig& config) {
  DataConfig& data = config.data;
  const bool tokens = data.source == data::kTokens && data.format != DataFormat::kText;
  if (!tokens || data.synthetic || config.IsSet("data.begin")) return;
  const auto begins = [&](const TrainSource& source) {
    try {
      return std::ranges::all_of(
          data::ExpandFiles(source.files, data.exclude, "data.train"), [](const std::string& path) {
            return data::IsNextToTokens(path) || !data::ReadBegins(path).empty();
          });
    } catch (const UserError&) {  // opening the files reports the error again
      return false;
    }
  };
  if (!std::ranges::all_of(data.train, begins)) data.begin = BeginToken::kNone;
}

}  // namespace plimsoll::config
