// Between a session and a snapshot on disk. Tensors go as the bytes that lie in the arena, so that
// a run that goes on has the same bits in every precision.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "snapshots/folder.h"
#include "snapshots/snapshot.h"
#include "trainer/ranks.h"
#include "trainer/session.h"

namespace plimsoll::trainer {

// All ranks call. UserError, naming a rank, unless all see what the first one writes to `folder`.
void RequireSharedFolder(const std::string& folder, Ranks& ranks);

// Writes the snapshot of `step`, with `run` as the manifest's part of the trainer. All ranks call,
// between two steps; each writes a shard with what no rank before it has. `progressed` is called
// now and then. Returns what went wrong, the same on all ranks, and nothing when the snapshot is
// complete; what was there before is then still there.
std::string WriteSnapshot(const snapshots::Folder& folder, int64_t step, const std::string& run,
                          const Session& session, Ranks& ranks,
                          const std::function<void()>& progressed);

// Fills the session's state. UserError when a tensor is damaged, missing or of another kind; the
// session is not to be used then. The ranks that wrote the snapshot may have been others.
void ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                  const Ranks& ranks, Session& session);

}  // namespace plimsoll::trainer
