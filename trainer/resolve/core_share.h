// Counts the cores of a rank. Several ranks of a host may run on the same cores, as after mpirun
// --bind-to none.
#pragma once

#include "runtime/ranks/world.h"

namespace plimsoll::trainer {

// Exchanges between all ranks what CoresOfRank returns. All ranks call this once, when they start.
void ShareCores(runtime::World& world);

// The number of cores that this rank may keep busy while the other ranks of its host do the same;
// at least 1. Without a call of ShareCores this is OwnCores().
int CoresOfRank();

}  // namespace plimsoll::trainer
