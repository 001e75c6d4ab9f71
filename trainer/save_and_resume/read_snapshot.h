// Reads a snapshot from disk into a session, on the ranks that wrote it or on others.
#pragma once

#include <cstdint>
#include <string>

#include "snapshots/snapshot.h"
#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Whether the histories of carried states (graph::OwnedAs::kHistory) continue, the worst value
// last. If the snapshot has another history, the history and its states begin at zero.
enum class Histories : uint8_t {
  kContinue,      // the history continues, or this run has none
  kMissing,       // the snapshot has no history
  kOtherWindow,   // the snapshot's history covers another number of updates
  kOtherTensors,  // the snapshot's history covers other tensors
};

// Fills the session's state, using the threads of its device's pool. Other ranks may have written
// the snapshot. Throws a UserError if a tensor is damaged, missing or of another kind; the session
// must not be used then.
Histories ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                       const Ranks& ranks, Session& session);

// A line for the user; empty if histories continue.
std::string Text(Histories histories);

}  // namespace plimsoll::trainer
