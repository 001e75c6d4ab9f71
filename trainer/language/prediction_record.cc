#include "trainer/language/prediction_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "base/version.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFile = "predictions.json";

std::string TextIn(const ordered_json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_string()) return "";
  return object.at(key).get<std::string>();
}

}  // namespace

PredictionRecord::PredictionRecord(const std::string& folder, const TrainedModel& trained,
                                   const std::vector<std::string>& names, bool overwrite)
    : path_((fs::path(folder) / kFile).string()),
      model_(trained.folder),
      weights_(trained.snapshot          ? trained.snapshot->path()
               : trained.adapter.empty() ? trained.weights
                                         : trained.adapter),
      checksum_(ChecksumOf(trained)) {
  std::error_code error;
  const bool recorded = fs::exists(path_, error);
  std::ifstream file = OpenFile(path_);
  const ordered_json there = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  constexpr const char* kWayOut = "name another folder, or give --overwrite to replace them";
  if (recorded && TextIn(there, "checksum") == checksum_) {
    if (there.contains("files") && there.at("files").is_array()) {
      for (const ordered_json& name : there.at("files")) {
        if (name.is_string()) files_.push_back(name.get<std::string>());
      }
    }
    std::ranges::sort(files_);
  } else if (recorded && !overwrite) {
    const std::string of = TextIn(there, "weights");
    throw UserError(fmt::format("--to {}: holds predictions of {} ({}); {}", folder,
                                of.empty() ? "another model" : "other weights, " + of, kFile,
                                kWayOut));
  }
  for (const std::string& name : names) {
    if (overwrite || std::ranges::binary_search(files_, name)) continue;
    if (!fs::exists(fs::path(folder) / name, error)) continue;
    throw UserError(
        fmt::format("--to {}: holds {}, and nothing says that these weights made it; {}", folder,
                    name, kWayOut));
  }
}

void PredictionRecord::Add(const std::string& name) {
  const auto place = std::ranges::lower_bound(files_, name);
  if (place == files_.end() || *place != name) files_.insert(place, name);
  Write();
}

void PredictionRecord::Write() const {
  const ordered_json json = {{"program", fmt::format("plimsoll {} ({})", Version(), Commit())},
                             {"model", model_},
                             {"weights", weights_},
                             {"checksum", checksum_},
                             {"files", files_}};
  OutputFile file(path_);
  file.Write(json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  file.Commit(OutputFile::Sync::kNo);
}

}  // namespace plimsoll::trainer
