// Reads a snapshot from disk into a session, on the ranks that wrote it or on a different mesh.
#pragma once

#include <cstdint>
#include <string>

#include "snapshots/snapshot.h"
#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Whether the histories of carried states (graph::OwnedAs::kHistory) continue, from the best value
// to the worst. If the snapshot's history does not fit the run's, the history and its states begin
// at zero.
enum class Histories : uint8_t {
  kContinue,      // the history continues, or this run has none
  kMissing,       // the snapshot has no history
  kOtherWindow,   // the snapshot's history covers a different number of updates than the run's
  kOtherTensors,  // the snapshot's history covers different tensors than the run's
};

// Fills the session's state, using the threads of its device's pool. The snapshot may be from ranks
// of a different mesh. Throws a UserError if a tensor is damaged, missing or of an unexpected kind;
// the session must not be used after such an error.
Histories ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                       const Ranks& ranks, Session& session);

// A line for the user; empty if histories continue.
std::string Text(Histories histories);

}  // namespace plimsoll::trainer
