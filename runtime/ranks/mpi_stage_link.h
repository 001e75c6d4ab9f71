// Sends and receives between pipeline stages on CPUs, through MPI.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/stage_link.h"

namespace plimsoll::runtime {

// Makes a link between the ranks of `stages`, each of which is a stage. `ranks`: their ranks in the
// job. All of them call. Each direction has its own MPI communicator.
//
// MPI moves most bytes of a long message only while both ranks are inside an MPI call. So messages
// hardly overlap with runs.
//
// With PLIMSOLL_SYNCHRONOUS_SENDS=1 in the environment, every send waits for its receive, however
// short it is. A schedule that completes then needs no buffers of MPI.
std::unique_ptr<StageLink> MakeMpiStageLink(MPI_Comm stages, std::vector<int64_t> ranks);

}  // namespace plimsoll::runtime
