#include "trainer/language/prediction_record.h"

#include <fmt/format.h>

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

// The files that a record names; of records without inputs, which are then "".
PredictionRecord::Inputs FilesIn(const ordered_json& record) {
  PredictionRecord::Inputs files;
  if (!record.is_object() || !record.contains("files") || !record.at("files").is_array()) {
    return files;
  }
  const ordered_json inputs = record.value("inputs", ordered_json::object());
  for (const ordered_json& name : record.at("files")) {
    if (!name.is_string()) continue;
    const auto text = name.get<std::string>();
    if (fs::path(text).filename() != text) continue;  // in another folder: none of ours
    files[text] = TextIn(inputs, text.c_str());
  }
  return files;
}

}  // namespace

PredictionRecord::PredictionRecord(const std::string& folder, const TrainedModel& trained,
                                   const Inputs& inputs, bool overwrite)
    : folder_(folder),
      path_((fs::path(folder) / kFile).string()),
      model_(trained.folder),
      weights_(trained.snapshot          ? trained.snapshot->path()
               : trained.adapter.empty() ? trained.weights
                                         : trained.adapter),
      checksum_(ChecksumOf(trained)),
      inputs_(inputs) {
  std::error_code error;
  const bool recorded = fs::exists(path_, error);
  std::ifstream file = OpenFile(path_);
  const ordered_json there = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  constexpr const char* kWayOut = "name another folder, or give --overwrite to replace them";
  if (recorded && TextIn(there, "checksum") == checksum_) {
    files_ = FilesIn(there);
  } else if (recorded && !overwrite) {
    const std::string of = TextIn(there, "weights");
    throw UserError(fmt::format("--to {}: holds predictions of {} ({}); {}", folder,
                                of.empty() ? "another model" : "other weights, " + of, kFile,
                                kWayOut));
  } else if (recorded) {
    for (const auto& [name, input] : FilesIn(there)) replaced_.push_back(name);
  }
  if (overwrite) return;
  for (const auto& [name, input] : inputs) {
    if (!fs::exists(fs::path(folder) / name, error)) continue;
    const auto made = files_.find(name);
    if (made == files_.end()) {
      throw UserError(
          fmt::format("--to {}: holds {}, and nothing says that these weights made it; {}", folder,
                      name, kWayOut));
    }
    if (made->second.empty() || made->second == input) continue;
    throw UserError(fmt::format("--to {}: holds {}, which was predicted from {}; {}", folder, name,
                                made->second, kWayOut));
  }
}

void PredictionRecord::Add(const std::string& name) {
  for (const std::string& other : replaced_) {
    std::error_code ignored;
    fs::remove(fs::path(folder_) / other, ignored);
  }
  replaced_.clear();
  files_[name] = inputs_.at(name);
  Write();
}

void PredictionRecord::Write() const {
  std::vector<std::string> names;
  for (const auto& [name, input] : files_) names.push_back(name);
  const ordered_json json = {{"program", fmt::format("plimsoll {} ({})", Version(), Commit())},
                             {"model", model_},
                             {"weights", weights_},
                             {"checksum", checksum_},
                             {"files", names},
                             {"inputs", files_}};
  OutputFile file(path_);
  file.Write(json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  file.Commit(OutputFile::Sync::kNo);
}

}  // namespace plimsoll::trainer
