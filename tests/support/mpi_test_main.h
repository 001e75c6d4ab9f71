// Common parts of tests that run on several ranks. Their main() is in mpi_test_main.cc and replaces
// GoogleTest's: it works under mpirun and alone.
#pragma once

#include "runtime/ranks/world.h"

namespace plimsoll {

// The world of all ranks.
runtime::World& TestWorld();

}  // namespace plimsoll
