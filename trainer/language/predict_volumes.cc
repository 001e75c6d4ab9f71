// `plimsoll predict` for models that classify the voxels of volumes. Runs windows that cover a
// volume, merges their logits, and writes the most likely classes as a NIfTI file like the input.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/message.h"
#include "base/output_file.h"
#include "base/version.h"
#include "data/volumes/volume_files.h"
#include "data/volumes/volume_folder.h"
#include "data/volumes/volume_patches.h"
#include "data/volumes/volume_preparation.h"
#include "data/volumes/volume_resampling.h"
#include "data/volumes/volume_slots.h"
#include "trainer/config/owner_keys.h"
#include "trainer/language/predict.h"
#include "trainer/language/sliding_window.h"
#include "trainer/language/volume_needs.h"
#include "trainer/language/volume_scores.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {
namespace {

// predictions.json in a folder of predictions: records which weights made them, so that no other
// model claims them.
class PredictionRecord {
 public:
  // Maps the name of a file to write to the absolute path of its input.
  using Inputs = std::map<std::string, std::string>;

  // Throws a UserError (--to) if the folder holds one of the files, predictions of other weights,
  // or a prediction of another input with the same name, unless `overwrite`. Writes nothing.
  PredictionRecord(const std::string& folder, const TrainedModel& trained, const Inputs& inputs,
                   bool overwrite);

  // Records that these weights make the file. Call this before the file is written. The first call
  // removes predictions of other weights that are to be replaced.
  void Add(const std::string& name);

 private:
  void Write() const;

  std::string folder_, path_, model_, weights_, checksum_;
  Inputs inputs_;                      // inputs of this call
  Inputs files_;                       // files that these weights have made
  std::vector<std::string> replaced_;  // files of other weights
};

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFile = "predictions.json";

std::string TextIn(const ordered_json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_string()) return "";
  return object.at(key).get<std::string>();
}

// The files in a record. Records of older versions have no inputs, which are then "".
PredictionRecord::Inputs FilesIn(const ordered_json& record) {
  PredictionRecord::Inputs files;
  if (!record.is_object() || !record.contains("files") || !record.at("files").is_array()) {
    return files;
  }
  const ordered_json inputs = record.value("inputs", ordered_json::object());
  for (const ordered_json& name : record.at("files")) {
    if (!name.is_string()) continue;
    const auto text = name.get<std::string>();
    if (fs::path(text).filename() != text) continue;  // a file in another folder, which is not ours
    files[text] = TextIn(inputs, text.c_str());
  }
  return files;
}

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
  WriteWhole(path_, json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n",
             OutputFile::Sync::kNo);
}

namespace fs = std::filesystem;

constexpr const char* kVolumes = "volumes";  // the source that defines how files are prepared

// Adds a volume's file, or the volumes of a data set: its test volumes, if it has any.
void AddVolumes(const std::string& input, std::vector<data::VolumeFile>& files) {
  if (std::error_code ignored; fs::is_directory(input, ignored)) {
    const data::VolumeFolder found = data::FindVolumes(input);
    const std::vector<data::VolumeFile>& part = found.test.empty() ? found.train : found.test;
    files.insert(files.end(), part.begin(), part.end());
    return;
  }
  std::string name = fs::path(input).filename().string();
  for (const std::string_view ending : {".nii.gz", ".nii"}) {
    if (!name.ends_with(ending) || name.size() == ending.size()) continue;
    name.resize(name.size() - ending.size());
    files.push_back({.name = name, .images = {input}, .label = ""});
    return;
  }
  throw UserError(input +
                  ": volumes are read from NIfTI files, .nii or .nii.gz; convert it, or name the "
                  "folder of a data set");
}

std::string OutputName(const data::VolumeFile& file) { return file.name + ".nii.gz"; }

std::string OutputOf(const PredictCommand& command, const data::VolumeFile& file) {
  return (fs::path(command.to) / OutputName(file)).string();
}

// Throws a UserError if a prediction would overwrite another prediction or an input.
void CheckOutputs(const PredictCommand& command, const std::vector<data::VolumeFile>& files) {
  std::set<std::string> names;
  for (const data::VolumeFile& file : files) {
    if (!names.insert(file.name).second) {
      throw UserError(fmt::format(
          "--to: two volumes are called {}, and both would be written to {}; predict them one "
          "after the other, into two folders",
          file.name, OutputOf(command, file)));
    }
    std::vector<std::string> read = file.images;
    read.push_back(file.label);
    for (const std::string& path : read) {
      std::error_code ignored;
      if (!fs::equivalent(path, OutputOf(command, file), ignored)) continue;
      throw UserError(
          fmt::format("--to: the prediction of {} would be written over it; name "
                      "another folder",
                      path));
    }
  }
}

void MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw UserError(fmt::format("--to {}: the folder cannot be made: {}; name another one", folder,
                              error.message()));
}

config::RunConfig DataOf(const PredictCommand& command, const TrainedModel& trained) {
  const auto config = DataConfigOf(command, trained);
  if (config && config->data.source == kVolumes) return *config;
  throw UserError(fmt::format(
      "{}: {} how volumes are prepared; name a Hugging Face folder, such as {}/model, with "
      "--run-file and a file whose data.source is {}",
      command.folder,
      config ? fmt::format("its data.source, {}, does not say", config->data.source)
             : "nothing says",
      command.folder, kVolumes));
}

data::VolumePreparation PreparationBy(const config::RunConfig& config, int64_t classes) {
  try {
    return data::VolumePreparationFrom(config.data.settings, classes);
  } catch (const SettingError& error) {
    throw config::ErrorOf(config, "data", error);
  }
}

WindowOptions WindowOptionsOf(const PredictCommand& command, const TrainedModel& trained,
                              const config::RunConfig& config) {
  return {
      .patch = data::PatchOf({.images = trained.model->inputs().at("images").shape}),
      .classes = trained.model->input_bounds().at("labels"),
      .overlap = command.overlap.value_or(config.data.settings.Float("overlap")),
      .batch = RowsFor(command, trained, std::numeric_limits<int64_t>::max()),
      .fills_on_host = DeviceFrom(trained.config()) != runtime::DeviceKind::kCpu,
  };
}

// The shapes in the headers of the files. Skips unreadable files, unless there is only one file.
std::vector<VolumeToPredict> ShapesOf(const std::vector<data::VolumeFile>& files,
                                      const data::VolumePreparation& preparation) {
  std::vector<VolumeToPredict> volumes;
  for (const data::VolumeFile& file : files) {
    try {
      volumes.push_back({file, data::ShapeOf(file, preparation.reading)});
    } catch (const UserError&) {
      if (files.size() == 1) throw;
    }
  }
  return volumes;
}

// Predicts volumes one after the other.
class VolumePredictor {
 public:
  VolumePredictor(const PredictCommand& command, const TrainedModel& trained,
                  const data::VolumePreparation& preparation, const WindowOptions& options)
      : command_(command),
        names_(ClassNamesOf(trained)),
        preparation_(preparation),
        options_(options),
        predictor_(trained, command, options.batch, false),
        memory_(MemoryOf(predictor_.session().compiled())) {
    for (const Slot& slot : predictor_.session().slots()) {
      if (slot.name == "labels") std::ranges::fill(slot.values<int32_t>(), data::kUnlabelled);
      if (slot.name == "images") std::ranges::fill(slot.values<float>(), 0.0f);
    }
  }

  // Reads a volume without labels. Throws a UserError if the file or its label cannot be read, or
  // if its channels do not match the model's.
  data::Volume Read(const data::VolumeFile& file, formats::NiftiGrid& grid) const;
  // Writes the volume's segmentation and prints its scores.
  void Predict(const data::VolumeFile& file, data::Volume volume, const formats::NiftiGrid& grid);
  // Prints mean scores over the volumes with labels.
  void PrintMeans() const;

  const InferenceMemory& memory() const { return memory_; }

 private:
  std::vector<uint8_t> Segment(const data::Volume& volume, const data::VolumeSize& size);

  const PredictCommand& command_;
  std::vector<std::string> names_;
  data::VolumePreparation preparation_;
  WindowOptions options_;
  Predictor predictor_;
  InferenceMemory memory_;
  MeanScores means_;
};

// The classes [D,H,W] of the volume, resampled to that size.
std::vector<uint8_t> VolumePredictor::Segment(const data::Volume& volume,
                                              const data::VolumeSize& size) {
  const data::PatchShape& patch = options_.patch;
  const std::vector<data::VolumeWindow> windows =
      data::WindowsOf(volume.size, patch.size, options_.overlap);
  const int64_t sums = SlidingWindow::Bytes(volume.size, patch.size, options_.classes);
  PrintNote(fmt::format("{}: {} × {} × {} voxels in {}; sums of {} {}, arena {}\n", volume.name,
                        volume.size.depth, volume.size.height, volume.size.width,
                        Counted(windows.size(), "window"),
                        Counted(SlidingWindow::Slices(volume.size, patch.size), "slice"),
                        FormatBytes(sums), FormatBytes(memory_.arena)));
  data::LikeliestClasses likeliest(volume.size, size, options_.classes);
  SlidingWindow merged(volume.size, patch.size, windows, options_.classes,
                       [&](std::span<const float> logits) { likeliest.AddSlice(logits); });
  const data::VolumeSlots slots(patch, predictor_.session().slots());
  const auto rows = static_cast<size_t>(slots.rows());
  const auto window_logits = static_cast<size_t>(patch.size.voxels() * options_.classes);
  for (size_t first = 0; first < windows.size(); first += rows) {
    // Rows after the last window keep their old contents; their logits are ignored.
    const size_t filled = std::min(rows, windows.size() - first);
    for (size_t row = 0; row < filled; ++row) {
      const data::PatchPlace place = {.first = windows[first + row].first};
      for (int64_t c = 0; c < patch.channels; ++c) {
        data::CopyChannel(volume, place, patch.size, c, {}, slots.image(static_cast<int64_t>(row)));
      }
    }
    const std::vector<float> logits = predictor_.ClassLogits();
    for (size_t row = 0; row < filled; ++row) {
      merged.Add(std::span(logits).subspan(row * window_logits, window_logits));
    }
  }
  merged.Finish();
  return likeliest.Take();
}

data::Volume VolumePredictor::Read(const data::VolumeFile& file, formats::NiftiGrid& grid) const {
  data::Volume volume = preparation_.Read(file, &grid);
  volume.labels = std::vector<uint8_t>();  // labels are read again with the prediction
  if (volume.channels == options_.patch.channels) return volume;
  throw UserError(fmt::format("{}: has {}, and the model reads {}; name another file",
                              file.images.front(), Counted(volume.channels, "channel"),
                              options_.patch.channels));
}

void VolumePredictor::Predict(const data::VolumeFile& file, data::Volume volume,
                              const formats::NiftiGrid& grid) {
  const std::string to = OutputOf(command_, file);
  {
    const std::vector<uint8_t> classes =
        Segment(volume, data::RasSize(grid, data::OrientationOf(grid.affine)));
    volume.voxels = std::vector<float>();  // frees the voxels, as VolumeNeeds assumes
    data::WriteLabels(to, classes, grid);
  }
  // Scores the written file, whose voxels are those of the input, not those of the model.
  const data::Volume written = data::ReadVolume(
      {file.name, {to}, file.label, file.ignored},
      {.most_voxels = std::numeric_limits<int64_t>::max(), .classes = options_.classes});
  const VolumeScores scores = ScoresOf(written, options_.classes);
  means_.Add(scores);
  if (command_.json) {
    nlohmann::ordered_json line = {{"file", file.images.front()}, {"segmentation", to}};
    line.update(ScoresJson(scores, names_));
    PrintAnswer(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    PrintAnswer(fmt::format("{}: {}\n", file.images.front(), ScoresText(scores, names_)));
  }
}

void VolumePredictor::PrintMeans() const {
  if (means_.volumes() == 0) return;
  PrintAnswer((command_.json ? ScoresJson(means_, names_).dump() : ScoresText(means_, names_)) +
              "\n");
}

}  // namespace

Predicted PredictVolumes(const PredictCommand& command, const TrainedModel& trained) {
  if (!command.texts.empty()) {
    throw UserError("--text: the model reads volumes; name files of them");
  }
  if (!command.tokenizer.empty()) {
    throw UserError("--tokenizer: the model reads volumes, which have no tokens; leave it out");
  }
  if (command.to.empty()) {
    throw UserError(
        "--to: predictions of volumes are files, and need a folder to be written to; give --to "
        "FOLDER");
  }
  std::vector<data::VolumeFile> files;
  for (const std::string& input : command.inputs) AddVolumes(input, files);
  CheckOutputs(command, files);
  const config::RunConfig config = DataOf(command, trained);
  PredictionRecord::Inputs inputs;
  for (const data::VolumeFile& file : files) {
    inputs[OutputName(file)] = fs::absolute(file.images.front()).lexically_normal().string();
  }
  PredictionRecord record(command.to, trained, inputs, command.overwrite);
  const WindowOptions options = WindowOptionsOf(command, trained, config);
  const data::VolumePreparation preparation = PreparationBy(config, options.classes);
  Predicted predicted;
  predicted.host = RequireHostMemory(ShapesOf(files, preparation), options, trained.config());
  MakeFolder(command.to);
  VolumePredictor predictor(command, trained, preparation, options);
  for (const data::VolumeFile& file : files) {
    formats::NiftiGrid grid;
    data::Volume volume;
    try {
      volume = predictor.Read(file, grid);
    } catch (const UserError& error) {
      if (files.size() == 1) throw;
      PrintWarning(error.what());
      continue;
    }
    record.Add(OutputName(file));
    predictor.Predict(file, std::move(volume), grid);
    ++predicted.inputs;
  }
  predictor.PrintMeans();
  if (const int64_t unread = std::ssize(files) - predicted.inputs; unread > 0) {
    predicted.problem = fmt::format("{} of {} could not be read; the warnings above name them",
                                    unread, Counted(files.size(), "volume"));
  }
  predicted.memory = predictor.memory();
  return predicted;
}

}  // namespace plimsoll::trainer
