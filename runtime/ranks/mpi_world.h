// The part of MPI that runtime/ranks/world.cc needs: its start, its end, and the groups of ranks.
#pragma once

#include <memory>

#include "runtime/ranks/rank_group.h"

namespace plimsoll::runtime {

struct MpiRanks {
  std::unique_ptr<RankGroup> all;
  int local_rank = 0;
  int local_size = 1;
  int host_leader = 0;
};

MpiRanks StartMpi();
void FinishMpi();
void AbortMpi(int code);  // returns only when MPI cannot end this process

}  // namespace plimsoll::runtime
