// Sends and receives between stages on CPUs, through MPI.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/stage_link.h"

namespace plimsoll::runtime {

// Between the ranks of `stages`, each a stage; `ranks`: their ranks in the job. All of them call.
// Messages of a direction have a communicator of their own.
//
// MPI moves most bytes of a long message only while both ranks are in a call of it: they hardly
// travel at the same time as runs.
//
// With PLIMSOLL_SYNCHRONOUS_SENDS=1 in the environment a send waits for its receive, however short
// it is: what then comes to its end needs no buffers of MPI.
std::unique_ptr<StageLink> MakeMpiStageLink(MPI_Comm stages, std::vector<int64_t> ranks);

}  // namespace plimsoll::runtime
