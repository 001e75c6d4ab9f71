#include "data/volumes/volume_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/folders.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // maps names to paths

struct Part {
  std::string images_folder, labels_folder;
  Files images, labels;
};

// The volume's name in a file's name. Empty if the file is not a volume.
std::string_view NameOf(std::string_view file) {
  if (file.starts_with('.')) return {};
  for (const std::string_view ending : {".nii.gz", ".nii"}) {
    if (file.ends_with(ending)) return file.substr(0, file.size() - ending.size());
  }
  return {};
}

Files FilesIn(const std::string& folder) {
  Files files;
  if (!IsFolder(folder)) return files;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    const std::string file = entry->path().filename();
    const std::string_view name = NameOf(file);
    if (name.empty()) continue;
    const auto [there, added] = files.emplace(name, entry->path());
    if (!added) {
      throw UserError(fmt::format("{}: there is also {}; remove one of them",
                                  std::max(entry->path().string(), there->second),
                                  std::min(entry->path().string(), there->second)));
    }
  }
  if (error) throw UserError(fmt::format("{}: cannot be read: {}", folder, error.message()));
  return files;
}

Part PartIn(const std::string& folder, const char* suffix) {
  Part part = {.images_folder = folder + "/images" + suffix,
               .labels_folder = folder + "/labels" + suffix,
               .images = {},
               .labels = {}};
  part.images = FilesIn(part.images_folder);
  part.labels = FilesIn(part.labels_folder);
  return part;
}

std::string ChannelName(const std::string& volume, int channel) {
  return fmt::format("{}_{:04}", volume, channel);
}

// Splits the name of an nnU-Net image, such as liver_12_0001, into the volume's name and the
// channel.
std::optional<std::pair<std::string, int>> ChannelOf(const std::string& name) {
  constexpr size_t kSuffix = 5;
  if (name.size() <= kSuffix) return std::nullopt;
  const size_t at = name.size() - kSuffix;
  int channel = 0;
  for (const char digit : std::string_view(name).substr(at + 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    channel = 10 * channel + (digit - '0');
  }
  if (name[at] != '_') return std::nullopt;
  return std::pair(name.substr(0, at), channel);
}

// Whether the labels show that the layout is nnU-Net's, or that it is not. nullopt: they show
// neither.
std::optional<bool> LabelsShowChannels(const Part& part) {
  std::optional<bool> shown;
  for (const auto& [name, path] : part.labels) {
    if (part.images.contains(name)) {
      shown = false;
    } else if (part.images.contains(ChannelName(name, 0))) {
      return true;
    }
  }
  return shown;
}

bool AllAreChannels(const Part& part) {
  return std::ranges::all_of(part.images, [&](const auto& image) {
    const auto channel = ChannelOf(image.first);
    return channel && part.images.contains(ChannelName(channel->first, 0));
  });
}

// Whether image names end with channel numbers.
bool HasChannelNames(const Part& train, const Part& test) {
  for (const Part* part : {&train, &test}) {
    if (const auto shown = LabelsShowChannels(*part)) return *shown;
  }
  return AllAreChannels(train) && AllAreChannels(test);
}

// The number of channels of nnU-Net volumes: the maximum over the volumes.
int ChannelsOf(const Part& part) {
  int channels = 0;
  for (const auto& [name, path] : part.images) {
    if (const auto channel = ChannelOf(name)) channels = std::max(channels, channel->second + 1);
  }
  return channels;
}

// Collects the image files of each volume, by name. `channels`: the number of channels in nnU-Net's
// layout; 0: one file has all channels.
std::map<std::string, std::vector<std::string>> ImagesOf(const Part& part, int channels) {
  std::map<std::string, std::vector<std::string>> images;
  if (channels == 0) {
    for (const auto& [name, path] : part.images) images[name] = {path};
    return images;
  }
  for (const auto& [name, path] : part.images) {
    const auto channel = ChannelOf(name);
    if (!channel) {
      throw UserError(path +
                      ": the other images here are named by channels, as in NAME_0000; name it so, "
                      "too");
    }
    images[channel->first];
  }
  for (auto& [name, files] : images) {
    for (int channel = 0; channel < channels; ++channel) {
      const auto found = part.images.find(ChannelName(name, channel));
      if (found == part.images.end()) {
        throw UserError(fmt::format(
            "{}/{}: there is no such file .nii or .nii.gz, and volumes here have {}; "
            "copy "
            "it there",
            part.images_folder, ChannelName(name, channel), Counted(channels, "channel")));
      }
      files.push_back(found->second);
    }
  }
  return images;
}

std::vector<VolumeFile> VolumesOf(const Part& part, int channels, bool labelled) {
  std::vector<VolumeFile> volumes;
  const auto images = ImagesOf(part, channels);
  for (const auto& [name, path] : part.labels) {
    if (!images.contains(name)) {
      throw UserError(fmt::format("{}: there is no image for it in {}; copy it there", path,
                                  part.images_folder));
    }
  }
  for (const auto& [name, files] : images) {
    const auto label = part.labels.find(name);
    if (label != part.labels.end()) {
      volumes.push_back({name, files, label->second});
    } else if (labelled) {
      throw UserError(fmt::format(
          "{}: there is no label for it: {}/{}.nii or .nii.gz; copy it there, or remove the image",
          files.front(), part.labels_folder, name));
    } else {
      volumes.push_back({name, files, ""});
    }
  }
  return volumes;
}

// Whether the list contains the volume's name or the name of one of its files.
bool IsListed(const VolumeFile& volume, const std::set<std::string>& listed) {
  return listed.contains(volume.name) ||
         std::ranges::any_of(volume.images, [&](const std::string& image) {
           const std::string file = fs::path(image).filename();
           return listed.contains(std::string(NameOf(file)));
         });
}

// Throws a UserError if a volume is missing from the list in `path`. An empty list is not checked.
void CheckListed(const std::string& path, const char* key, const std::set<std::string>& listed,
                 const std::vector<VolumeFile>& found) {
  if (listed.empty()) return;
  for (const VolumeFile& file : found) {
    if (IsListed(file, listed)) continue;
    throw UserError(
        fmt::format("{}: {}: doesn't list {}; add it to the list, or move the volume "
                    "out of the folder",
                    path, key, file.images.front()));
  }
}

}  // namespace

VolumeFolder FindVolumes(const std::string& folder) {
  if (!IsFolder(folder)) {
    throw UserError(fmt::format(
        "{}: there is no such folder; name one that holds imagesTr and labelsTr", folder));
  }
  for (const char* name : {"imagesVa", "imagesVal"}) {
    if (!IsFolder(folder + "/" + name)) continue;
    throw UserError(
        fmt::format("{}/{}: volumes that are held out lie in imagesTs and labelsTs; rename it and "
                    "its labels, or move them elsewhere",
                    folder, name));
  }
  const Part train = PartIn(folder, "Tr"), test = PartIn(folder, "Ts");
  if (train.images.empty() && test.images.empty()) {
    throw UserError(folder +
                    ": holds no volumes: neither the Medical Segmentation Decathlon's layout "
                    "(imagesTr/NAME.nii.gz, labelsTr/NAME.nii.gz) nor nnU-Net's "
                    "(imagesTr/NAME_0000.nii.gz, labelsTr/NAME.nii.gz) is there; files .nii.gz and "
                    ".nii are read");
  }
  const int channels =
      HasChannelNames(train, test) ? std::max(ChannelsOf(train), ChannelsOf(test)) : 0;
  VolumeFolder found = {.train = VolumesOf(train, channels, true),
                        .test = VolumesOf(test, channels, !test.labels.empty()),
                        .dataset = {}};
  const std::string described = folder + "/" + kDatasetFile;
  if (!IsThere(described)) return found;
  found.dataset = ReadDataset(described);
  CheckListed(described, "training", found.dataset.train, found.train);
  CheckListed(described, "test", found.dataset.test, found.test);
  for (std::vector<VolumeFile>* part : {&found.train, &found.test}) {
    for (VolumeFile& file : *part) file.ignored = found.dataset.ignored;
  }
  return found;
}

}  // namespace plimsoll::data
