// A run's folder of snapshots (checkpoints). Each snapshot is a subfolder, and is written
// atomically:
//
//   step-000001000            complete: it got this name only when all of its files were on disk
//   step-000002000.partial    being written or removed, or left over from a killed program
//   step-000001000.replaced   about to be replaced, if the file system cannot exchange two names
//
// So at every instant the newest complete snapshot exists, either under its own name or under the
// third name, from which Recover() restores it. Only one program at a time writes into the folder.
// Errors are UserErrors that name the file.
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
  int64_t newest = 0;                // number of newest snapshots to keep; 0: all
  int64_t every = 0;                 // also keeps steps divisible by this number; 0: none
  std::optional<int64_t> best = {};  // also keeps the snapshot of this step
};

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string PathOf(int64_t step) const;     // step-…
  std::string PartialOf(int64_t step) const;  // step-….partial

  // The steps that have a complete snapshot, by name, in ascending order. Empty if the folder
  // doesn't exist.
  std::vector<int64_t> Steps() const;

  // Creates the folder if it doesn't exist, restores snapshots whose replacement was interrupted,
  // and removes other leftovers of interrupted programs.
  void Recover() const;

  // A snapshot is saved in three calls. Begin makes an empty folder PartialOf(step) for shards.
  // Finish writes the manifest, after which everything is on disk. Publish gives the folder its
  // final name, and at last removes an older snapshot of the same step.
  void Begin(int64_t step) const;
  void Finish(const Manifest& manifest) const;
  void Publish(int64_t step) const;
  // Removes the incomplete snapshot after a failure between these calls.
  void Abandon(int64_t step) const noexcept;

  // Call this after the snapshot of step `current` was published. It removes snapshots that
  // `retention` doesn't keep, the oldest first. It also removes snapshots of later steps than
  // `current`: they belong to a training that diverged from this one.
  void Prune(int64_t current, const Retention& retention) const;

 private:
  std::string ReplacedOf(int64_t step) const;
  void Remove(int64_t step) const;

  std::string path_;
};

// The step in a complete snapshot's name; nullopt for other names.
std::optional<int64_t> StepOf(const std::string& name);

}  // namespace plimsoll::snapshots
