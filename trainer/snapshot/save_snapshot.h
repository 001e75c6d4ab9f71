// From a session to a snapshot on disk. Tensors go as the bytes that lie in the arena, so that
// a run that goes on has the same bits in every precision.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "graph/dtype.h"
#include "snapshots/manifest.h"
#include "trainer/settle/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// All ranks call. UserError, naming a rank, unless all see what the first one writes to `folder`.
void RequireSharedFolder(const std::string& folder, Ranks& ranks);

// Writes, into `folder`, a shard with what this rank saves of the session's state, and waits until
// it is on disk. With a copy of the state (Session::CopyState) that is what it writes, and it may
// be called on another thread. Returns what ManifestOf() is to be told of it. `progressed` is
// called now and then. UserError when it cannot be written.
std::string WriteShard(const std::string& folder, const Session& session, const Ranks& ranks,
                       const std::function<void()>& progressed);

// Of the snapshot of `step`, made of all ranks' shards, in their order; `run` is the manifest's
// part of the trainer.
snapshots::Manifest ManifestOf(const std::vector<std::string>& shards, int64_t step,
                               const std::string& run, const Session& session, const Ranks& ranks);

// The type of a tensor of the arena in a shard.
formats::TensorType TensorTypeOf(graph::DType dtype);

}  // namespace plimsoll::trainer
