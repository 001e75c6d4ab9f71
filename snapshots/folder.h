// A run's folder of snapshots (checkpoints), which are written atomically; each is a subfolder:
//
//   step-000001000            complete: it got this name only when all of it was on disk
//   step-000002000.partial    being written or removed, or left so by a program that was killed
//   step-000001000.replaced   about to be replaced, where a file system cannot exchange two names
//
// So at every instant the newest complete snapshot exists under its name, or under the third name,
// from which Recover() restores it. Only one program at a time writes into the folder. Errors are
// UserErrors that name the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "snapshots/manifest.h"

namespace plimsoll::snapshots {

// Which snapshots are kept.
struct Retention {
  int64_t newest = 0;                // this many; 0: all
  int64_t every = 0;                 // also those of steps divisible by this; 0: none
  std::optional<int64_t> best = {};  // also the one of this step
};

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string PathOf(int64_t step) const;     // step-…
  std::string PartialOf(int64_t step) const;  // step-….partial

  // Steps that have a complete snapshot, by name, in ascending order. Empty when there is no
  // folder.
  std::vector<int64_t> Steps() const;

  // Creates the folder if there is none, restores snapshots whose replacement was interrupted, and
  // removes other leftovers of interrupted programs.
  void Recover() const;

  // Saves in three calls. Begin makes an empty folder PartialOf(step) for shards. Finish writes the
  // manifest, after which everything is on disk. Publish gives the folder its name, replacing an
  // older snapshot of that step, which it removes last.
  void Begin(int64_t step) const;
  void Finish(const Manifest& manifest) const;
  void Publish(int64_t step) const;
  // After a failure in between: removes the incomplete snapshot.
  void Abandon(int64_t step) const noexcept;

  // After the snapshot of step `current` was published: removes snapshots that `retention` doesn't
  // keep, the oldest first, and snapshots newer than `current`, which belong to a training that
  // took another course from there.
  void Prune(int64_t current, const Retention& retention) const;

 private:
  std::string ReplacedOf(int64_t step) const;
  void Remove(int64_t step) const;

  std::string path_;
};

// The step in a complete snapshot's name; nullopt for other names.
std::optional<int64_t> StepOf(const std::string& name);

}  // namespace plimsoll::snapshots
