// For tests on several GPUs: one for each rank of a host.
#pragma once

#include <string>

#include "runtime/ranks/world.h"

namespace plimsoll {

// Why the ranks cannot have a GPU each; empty when they can. The same on all ranks, since ranks
// that could run would wait for the others. Rank r of a host has GPU r.
std::string WhyNoCudaDeviceForEachRank(runtime::World& world);

}  // namespace plimsoll
