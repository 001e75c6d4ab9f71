#include "data/volumes/volume_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/parallel_each.h"
#include "base/settings.h"
#include "base/thread_pool.h"

namespace plimsoll::data {
namespace {

constexpr unsigned kMostThreads = 4;  // each thread takes scratch memory for a complete volume

VolumeFolder FilesOf(const std::string& folder) {
  try {
    return FindVolumes(folder);
  } catch (const UserError& error) {
    throw SettingError("folder", error.what());
  }
}

bool IsLabelled(const VolumeFile& file) { return !file.label.empty(); }

// Why a volume is skipped. Throws if the options do not skip unreadable volumes.
std::string ProblemOf(const UserError& error, const VolumeSetOptions& options) {
  if (options.skip_unreadable) return error.what();
  throw UserError(
      fmt::format("data.folder: {} (data.unreadable: skip leaves such volumes out)", error.what()));
}

[[noreturn]] void FailWithoutVolumes(const VolumeSetOptions& options, const std::string& problem) {
  throw SettingError(
      "folder", fmt::format("{}: no volume to train on can be read: {}", options.folder, problem));
}

void RequireChannels(const VolumeSetOptions& options, const std::string& name, int64_t channels,
                     const std::string& first, int64_t expected) {
  if (channels == expected) return;
  throw SettingError(
      "folder", fmt::format("{}: {} has {} and {} has {}; name a folder whose "
                            "volumes all have the same number",
                            options.folder, name, Counted(channels, "channel"), first, expected));
}

// The volumes for training, and in `test` the held-out volumes.
VolumeFolder FilesToRead(const VolumeSetOptions& options) {
  VolumeFolder files = FilesOf(options.folder);
  try {
    files.dataset.CheckIgnored(options.preparation.reading.classes,
                               options.folder + "/" + kDatasetFile);
  } catch (const UserError& error) {
    throw SettingError("folder", error.what());
  }
  if (options.held_out == 0) {
    std::erase_if(files.test, [](const VolumeFile& file) { return !IsLabelled(file); });
    return files;
  }
  if (options.held_out >= std::ssize(files.train)) {
    throw SettingError(
        "held_out",
        fmt::format("{} of {} for training in {} leaves "
                    "none to train on; hold out fewer",
                    options.held_out, Counted(files.train.size(), "volume"), options.folder));
  }
  const auto first = files.train.end() - options.held_out;
  files.test.assign(std::move_iterator(first), std::move_iterator(files.train.end()));
  files.train.erase(first, files.train.end());
  return files;
}

// Reads several volumes in parallel, since decompressing and resampling take most of the time.
std::vector<Volume> ReadAll(const std::vector<VolumeFile>& files, const VolumeSetOptions& options,
                            ThreadPool& pool, std::vector<std::string>& skipped) {
  std::vector<Volume> read(files.size());
  std::vector<std::string> problems(files.size());
  ParallelEach(pool, files.size(), [&](size_t i) {
    try {
      read[i] = options.preparation.Read(files[i]);
    } catch (const UserError& error) {
      problems[i] = ProblemOf(error, options);
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

std::vector<VolumeOutline> OutlineOf(const VolumeSetOptions& options) {
  const VolumeFolder files = FilesToRead(options);
  std::vector<VolumeOutline> outlines;
  std::string problem = "there is none";
  for (const std::vector<VolumeFile>* part : {&files.train, &files.test}) {
    for (const VolumeFile& file : *part) {
      try {
        outlines.push_back({file.name, ShapeOf(file, options.preparation.reading)});
      } catch (const UserError& error) {
        problem = ProblemOf(error, options);
      }
    }
    if (outlines.empty()) FailWithoutVolumes(options, problem);
  }
  for (const VolumeOutline& outline : outlines) {
    RequireChannels(options, outline.name, outline.shape.channels, outlines.front().name,
                    outlines.front().shape.channels);
  }
  return outlines;
}

int64_t BytesOf(const VolumeSetOptions& options) {
  constexpr int64_t kUnpacked = 3;  // estimated ratio of unpacked to compressed size
  const VolumeFolder files = FilesToRead(options);
  int64_t bytes = 0;
  const auto add = [&](const std::string& path) {
    std::error_code error;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
    if (!error) bytes += path.ends_with(".gz") ? kUnpacked * size : size;
  };
  for (const std::vector<VolumeFile>* part : {&files.train, &files.test}) {
    for (const VolumeFile& file : *part) {
      std::ranges::for_each(file.images, add);
      add(file.label);
    }
  }
  return bytes;
}

VolumeSet ReadVolumeSet(const VolumeSetOptions& options) {
  VolumeFolder files = FilesToRead(options);
  ThreadPool pool(
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads)));
  VolumeSet set;
  set.dataset = std::move(files.dataset);
  set.train = ReadAll(files.train, options, pool, set.skipped);
  set.held_out = ReadAll(files.test, options, pool, set.skipped);
  if (set.train.empty()) {
    FailWithoutVolumes(options, set.skipped.empty() ? "there is none" : set.skipped.front());
  }
  const Volume& first = set.train.front();
  for (const std::vector<Volume>* part : {&set.train, &set.held_out}) {
    for (const Volume& volume : *part) {
      RequireChannels(options, volume.name, volume.channels, first.name, first.channels);
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
