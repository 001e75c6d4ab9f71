// From a snapshot on disk to a session, on the ranks that wrote it or on others.
#pragma once

#include <cstdint>
#include <string>

#include "snapshots/snapshot.h"
#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// What became of the histories of carried states (graph::OwnedAs::kHistory), the worst last: they
// continue, or begin at zero, with the states, since the snapshot's are another one.
enum class Histories : uint8_t {
  kContinue,      // or this run has none
  kMissing,       // the snapshot has none
  kOtherWindow,   // of another number of updates
  kOtherTensors,  // of other tensors
};

// Fills the session's state, by the threads of its device's pool. UserError when a tensor is
// damaged, missing or of another kind; the session is not to be used then. The ranks that wrote the
// snapshot may have been others.
Histories ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                       const Ranks& ranks, Session& session);

// A line for the user; empty: they continue.
std::string Text(Histories histories);

}  // namespace plimsoll::trainer
