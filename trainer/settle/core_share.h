// How many cores a rank has where several ranks of a host may run on the same ones, as after mpirun
// --bind-to none.
#pragma once

#include "runtime/ranks/world.h"

namespace plimsoll::trainer {

// Tells all ranks what CoresOfRank is. All ranks call, once, when they start.
void ShareCores(runtime::World& world);

// The cores that this rank may keep busy while the others of its host do the same; at least 1.
// Without ShareCores, OwnCores().
int CoresOfRank();

}  // namespace plimsoll::trainer
