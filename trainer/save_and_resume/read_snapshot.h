// From a snapshot on disk to a session, on the ranks that wrote it or on others.
#pragma once

#include "snapshots/snapshot.h"
#include "trainer/settle/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Fills the session's state, by the threads of its device's pool. UserError when a tensor is
// damaged, missing or of another kind; the session is not to be used then. The ranks that wrote the
// snapshot may have been others.
void ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                  const Ranks& ranks, Session& session);

}  // namespace plimsoll::trainer
