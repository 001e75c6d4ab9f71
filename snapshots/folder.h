// A run's folder of snapshots, one folder for each:
//
//   step-000001000            complete: it got this name only when all of it was on disk
//   step-000002000.partial    being written or removed, or left so by a program that was killed
//   step-000001000.replaced   about to be replaced, where a file system cannot exchange two names
//
// So at every instant the newest complete snapshot is there under its name, or under the third,
// from which Recover() takes it back.
// One program at a time writes into the folder. Errors are UserErrors that name the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "snapshots/manifest.h"

namespace plimsoll::snapshots {

// Which snapshots stay.
struct Retention {
  int64_t newest = 0;                // so many; 0: all
  int64_t every = 0;                 // and those of steps divisible by this; 0: no more
  std::optional<int64_t> best = {};  // and the one of this step
};

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string PathOf(int64_t step) const;     // step-…
  std::string PartialOf(int64_t step) const;  // step-….partial

  // Steps that have a complete snapshot, by the names, in order. None when there is no folder.
  std::vector<int64_t> Steps() const;

  // Makes the folder if there is none, takes back what was to be replaced and is not, and removes
  // what else interrupted programs left.
  void Recover() const;

  // Saving, in three calls. Begin: an empty folder PartialOf(step), for shards. Finish: the
  // manifest, behind which all is on disk. Publish: the name, in place of an older one of that
  // step, whose removal is the last thing that it does.
  void Begin(int64_t step) const;
  void Finish(const Manifest& manifest) const;
  void Publish(int64_t step) const;
  // After a failure in between: removes what there is of it.
  void Abandon(int64_t step) const noexcept;

  // After the snapshot of step `current` was published: removes what `retention` doesn't keep, from
  // the oldest on, and what is newer than it, of a training that went another way from there.
  void Prune(int64_t current, const Retention& retention) const;

 private:
  std::string ReplacedOf(int64_t step) const;
  void Remove(int64_t step) const;

  std::string path_;
};

// The step in a complete snapshot's name; nothing for other names.
std::optional<int64_t> StepOf(const std::string& name);

}  // namespace plimsoll::snapshots
