// What tests that run on several ranks share. Their main() is in mpi_test_main.cc, in place of
// GoogleTest's: it works under mpirun and alone.
#pragma once

#include "runtime/world.h"

namespace plimsoll {

// All ranks.
runtime::World& TestWorld();

}  // namespace plimsoll
