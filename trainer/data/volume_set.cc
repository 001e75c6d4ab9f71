#include "trainer/data/volume_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/parallel_each.h"
#include "base/settings.h"
#include "base/thread_pool.h"

namespace plimsoll::data {
namespace {

constexpr unsigned kMostThreads = 4;  // each takes scratch memory of a whole volume

VolumeFolder FilesOf(const std::string& folder) {
  try {
    return FindVolumes(folder);
  } catch (const UserError& error) {
    throw SettingError("folder", error.what());
  }
}

bool IsLabelled(const VolumeFile& file) { return !file.label.empty(); }

// Several volumes at a time: decompressing and resampling take the time.
std::vector<Volume> ReadAll(const std::vector<VolumeFile>& files, const VolumeSetOptions& options,
                            ThreadPool& pool, std::vector<std::string>& skipped) {
  std::vector<Volume> read(files.size());
  std::vector<std::string> problems(files.size());
  ParallelEach(pool, files.size(), [&](size_t i) {
    try {
      read[i] = options.preparation.Read(files[i]);
    } catch (const UserError& error) {
      if (!options.skip_unreadable) {
        throw UserError(fmt::format(
            "data.folder: {} (data.unreadable: skip leaves such volumes out)", error.what()));
      }
      problems[i] = error.what();
    }
  });
  std::vector<Volume> volumes;
  for (size_t i = 0; i < files.size(); ++i) {
    if (problems[i].empty()) {
      volumes.push_back(std::move(read[i]));
    } else {
      skipped.push_back(std::move(problems[i]));
    }
  }
  return volumes;
}

}  // namespace

int64_t VolumeSet::bytes() const {
  int64_t sum = 0;
  for (const std::vector<Volume>* part : {&train, &held_out}) {
    for (const Volume& volume : *part) {
      sum += std::ssize(volume.voxels) * static_cast<int64_t>(sizeof(float)) +
             std::ssize(volume.labels);
    }
  }
  return sum;
}

VolumeSet ReadVolumeSet(const VolumeSetOptions& options) {
  VolumeFolder files = FilesOf(options.folder);
  try {
    files.dataset.CheckIgnored(options.preparation.reading.classes,
                               options.folder + "/" + kDatasetFile);
  } catch (const UserError& error) {
    throw SettingError("folder", error.what());
  }
  if (options.held_out > 0) {
    if (options.held_out >= std::ssize(files.train)) {
      throw SettingError("held_out",
                         fmt::format("{} of the {} volumes for training in {} leaves "
                                     "none to train on; hold out fewer",
                                     options.held_out, files.train.size(), options.folder));
    }
    const auto first = files.train.end() - options.held_out;
    files.test.assign(std::move_iterator(first), std::move_iterator(files.train.end()));
    files.train.erase(first, files.train.end());
  } else {
    std::erase_if(files.test, [](const VolumeFile& file) { return !IsLabelled(file); });
  }
  ThreadPool pool(
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads)));
  VolumeSet set;
  set.dataset = std::move(files.dataset);
  set.train = ReadAll(files.train, options, pool, set.skipped);
  set.held_out = ReadAll(files.test, options, pool, set.skipped);
  if (set.train.empty()) {
    throw SettingError("folder",
                       fmt::format("{}: no volume to train on can be read: {}", options.folder,
                                   set.skipped.empty() ? "there is none" : set.skipped.front()));
  }
  const Volume& first = set.train.front();
  for (const std::vector<Volume>* part : {&set.train, &set.held_out}) {
    for (const Volume& volume : *part) {
      if (volume.channels == first.channels) continue;
      throw SettingError(
          "folder",
          fmt::format("{}: {} has {} channels and {} has {}; name a folder whose "
                      "volumes all have as many",
                      options.folder, volume.name, volume.channels, first.name, first.channels));
    }
  }
  return set;
}

bool MayHaveLabelledTests(const std::string& folder) {
  try {
    return std::ranges::any_of(FindVolumes(folder).test, IsLabelled);
  } catch (const UserError&) {
    return true;
  }
}

}  // namespace plimsoll::data
