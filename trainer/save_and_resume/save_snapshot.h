// Writes a session to a snapshot on disk. Tensors are written as their bytes in the arena, so a
// resumed run has the same bits in every precision.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snapshots/manifest.h"
#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Throws a UserError that names a rank unless all ranks see the first rank's files in `folder`. All
// ranks call this.
void RequireSharedFolder(const std::string& folder, runtime::RankGroup& ranks);

// Writes this rank's part of the session's state to a shard in `folder`, and waits until the shard
// is on disk. With a copy of the state (Session::CopyState) it writes the copy, and another thread
// may call it. Returns this rank's argument for ManifestOf(). Calls `progressed` regularly. Throws
// a UserError if the shard cannot be written.
std::string WriteShard(const std::string& folder, const Session& session, const Ranks& ranks,
                       const std::function<void()>& progressed);

// The manifest of the snapshot of `step`, from the shards of all ranks, in their order. `run` is
// the trainer's part of the manifest.
snapshots::Manifest ManifestOf(const std::vector<std::string>& shards, int64_t step,
                               const std::string& run, const Ranks& ranks);

}  // namespace plimsoll::trainer
