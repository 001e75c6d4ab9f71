#include "data/volumes/volume_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

using formats::Harmless;
using formats::JsonObject;
using formats::Printable;
using formats::Read;
using formats::Refused;

constexpr int64_t kMostLabel = 255;              // largest value in label files
constexpr std::string_view kIgnored = "ignore";  // nnU-Net's name of the ignored label
constexpr const char* kAbout = "describes the data set, not how it is read";
constexpr const char* kFolders = "the folder's own files are counted";
constexpr const char* kValidation =
    "volumes in other folders than imagesTr and imagesTs are not read; data.held_out holds some "
    "out";
constexpr size_t kMostShown = 10;  // most labels that a message names

constexpr formats::KeyRule kKeys[] = {
    Read("labels"),
    Read("channel_names"),
    Read("modality"),
    Read("file_ending"),
    Read("training"),
    Read("test"),
    Refused("regions_class_order",
            "regions, which overlap, are not trained; give each label a class of its own in "
            "\"labels\", and remove this key"),
    Refused("dataset",
            "volumes are found in imagesTr and labelsTr; copy or link the listed files there, and "
            "remove this key"),
    Harmless("numTraining", kFolders),
    Harmless("numTest", kFolders),
    Harmless("numValidation", kFolders),
    Harmless("validation", kValidation),
    Harmless("tensorImageSize", "each file says how many dimensions it has"),
    Harmless("overwrite_image_reader_writer", "chooses the library with which nnU-Net reads files"),
    Harmless("image_reader_writer", "chooses the library with which nnU-Net reads files"),
    Harmless("name", kAbout),
    Harmless("dataset_name", kAbout),
    Harmless("description", kAbout),
    Harmless("reference", kAbout),
    Harmless("citation", kAbout),
    Harmless("licence", kAbout),
    Harmless("license", kAbout),
    Harmless("release", kAbout),
    Harmless("relase", kAbout),  // as the Decathlon's files spell it
    Harmless("version", kAbout),
    Harmless("converted_by", kAbout),
    Harmless("authors", kAbout),
    Harmless("author", kAbout),
    Harmless("contact", kAbout),
    Harmless("date", kAbout),
    Harmless("url", kAbout),
};

// Parses an integer in decimal digits.
std::optional<int64_t> NumberIn(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Adds a label and its name, which the file may have in either order.
void AddLabel(const JsonObject& file, const std::string& key, const nlohmann::json& value,
              VolumeDataset& set) {
  const auto fail = [&](const std::string& why) {
    file.Fail("labels", fmt::format("'{}': {}", Printable(key), why));
  };
  if (value.is_array()) {
    fail(
        fmt::format("{} is a region of several labels, and regions, which overlap, are not "
                    "trained; give each label a class of its own, as in {{\"background\": 0, "
                    "\"edema\": 1}}",
                    Printable(value.dump())));
  }
  std::string name = key;
  std::optional<int64_t> label;
  if (value.is_number_integer()) label = value.get<int64_t>();
  if (value.is_string()) {
    name = value.get<std::string>();
    label = NumberIn(key);
  }
  if (!label || *label > kMostLabel) {
    fail(
        fmt::format("{} gives no label a name; write the name and a whole number up to {}, as in "
                    "{{\"background\": 0}}",
                    Printable(value.dump()), kMostLabel));
  }
  if (name == kIgnored) {
    if (set.ignored) fail("there are two labels of this name; give it one");
    set.ignored = *label;
  } else if (*label >= 0 && !set.classes.emplace(*label, name).second) {
    fail(fmt::format("label {} has two names; give it one", *label));
  }
}

void ReadLabelNames(const JsonObject& file, VolumeDataset& set) {
  if (!file.Has("labels")) return;
  for (const auto& [key, value] : file.RequireObject("labels").json().items()) {
    AddLabel(file, key, value, set);
  }
  if (set.ignored && set.classes.contains(*set.ignored)) {
    file.Fail("labels", fmt::format("label {} has two names, one of them '{}'; give it one",
                                    *set.ignored, kIgnored));
  }
}

void ReadChannels(const JsonObject& file, const std::string& key, VolumeDataset& set) {
  if (!file.Has(key)) return;
  const JsonObject names = file.RequireObject(key);
  for (const std::string& channel : names.Keys()) {
    const auto number = NumberIn(channel);
    if (!number || *number < 0) {
      file.Fail(key, fmt::format("'{}' is no channel; number them from 0 on, as in {{\"0\": "
                                 "\"T1\"}}",
                                 Printable(channel)));
    }
    set.channels[*number] = names.RequireString(channel);
  }
}

// The names of the volumes in a list of files, or of objects that name an image and its label.
std::set<std::string> ListedIn(const JsonObject& file, const std::string& key) {
  if (!file.Has(key)) return {};
  const nlohmann::json& list = file.json().at(key);
  std::set<std::string> names;
  const auto fail = [&] {
    file.Fail(key,
              "is no list of files, or of {\"image\": …, \"label\": …}; correct it or remove "
              "it");
  };
  if (!list.is_array()) fail();
  for (const nlohmann::json& entry : list) {
    const bool is_object = entry.is_object() && entry.contains("image");
    const nlohmann::json& path = is_object ? entry.at("image") : entry;
    if (!path.is_string()) fail();
    std::string name = std::filesystem::path(path.get<std::string>()).filename();
    for (const std::string_view ending : {".nii.gz", ".nii"}) {
      if (!name.ends_with(ending)) continue;
      name.resize(name.size() - ending.size());
      break;
    }
    names.insert(name);
  }
  return names;
}

void CheckFileEnding(const JsonObject& file) {
  const std::string ending = file.GetString("file_ending", ".nii.gz");
  if (ending == ".nii.gz" || ending == ".nii") return;
  file.Fail("file_ending",
            fmt::format("is '{}', and volumes are read from NIfTI files, .nii or .nii.gz; convert "
                        "them, and correct it",
                        Printable(ending)));
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::vector<std::string> VolumeDataset::ClassNames(int64_t count) const {
  if (std::ssize(classes) != count) return {};
  std::vector<std::string> names;
  for (const auto& [label, name] : classes) {
    if (label != std::ssize(names)) return {};
    names.push_back(name);
  }
  return names;
}

std::optional<int64_t> VolumeDataset::CountClasses() const {
  if (classes.empty()) return std::nullopt;
  return classes.rbegin()->first + 1;
}

std::string VolumeDataset::OtherClasses(int64_t count) const {
  if (classes.empty() || !ClassNames(count).empty()) return "";
  std::vector<int64_t> labels;
  for (const auto& [label, name] : classes) labels.push_back(label);
  const size_t shown = std::min(kMostShown, labels.size());
  return fmt::format(
      "  {} names the labels {}{}, and the model's classes are 0 to {}: they have no names "
      "(data.class_names gives them some)\n",
      kDatasetFile, fmt::join(std::span(labels).first(shown), ", "),
      labels.size() > shown ? ", …" : "", count - 1);
}

void VolumeDataset::CheckIgnored(int64_t count, const std::string& path) const {
  if (!ignored || *ignored < 0 || *ignored >= count || classes.empty()) return;
  const int64_t needed = classes.rbegin()->first + 1;
  if (needed > *ignored) return;
  throw UserError(fmt::format(
      "{}: labels: {} is called '{}' and is no class, but the model has {} classes, 0 to {}, and "
      "would never learn it; set model.classes to {}",
      path, *ignored, kIgnored, count, count - 1, needed));
}

std::string VolumeDataset::Normalisation(const std::string& path, bool clips) const {
  // nnU-Net chooses the normalisation by a channel's name; all names but these mean z-scores.
  constexpr std::string_view kCt = "ct", kNotDone[] = {kCt, "rescale_to_0_1", "rgb_to_0_1"};
  std::optional<std::pair<int64_t, std::string>> first;  // the first channel and its choice
  for (const auto& [channel, name] : channels) {
    const std::string lower = Lower(name);
    const bool is_done = clips && lower == kCt;
    if (!is_done && std::ranges::find(kNotDone, lower) != std::end(kNotDone)) {
      throw UserError(fmt::format(
          "{}: channel {} is called '{}', by which nnU-Net normalises in a way that Plimsoll "
          "doesn't have; say what is to be done with data.normalise{}",
          path, channel, Printable(name),
          lower == kCt ? ", or to what CT is cut with data.clip, such as [-100, 300]" : ""));
    }
    const std::string choice = lower == "nonorm" ? "none" : "z_score";
    if (!first) first = {channel, choice};
    if (first->second == choice) continue;
    throw UserError(fmt::format(
        "{}: channels {} and {} are to be normalised in two ways, and all are in one; say in which "
        "with data.normalise",
        path, first->first, channel));
  }
  return first ? first->second : "z_score";
}

std::span<const formats::KeyRule> DatasetKeys() { return kKeys; }

VolumeDataset ReadDataset(const std::string& path) {
  const JsonObject file = JsonObject::FromFile(path);
  formats::CheckKeys(file, kKeys, formats::UnknownKeys::kNamed);
  CheckFileEnding(file);
  VolumeDataset set;
  ReadLabelNames(file, set);
  ReadChannels(file, "modality", set);
  ReadChannels(file, "channel_names", set);
  set.train = ListedIn(file, "training");
  set.test = ListedIn(file, "test");
  return set;
}

}  // namespace plimsoll::data
