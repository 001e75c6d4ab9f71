// A hash that differs between different programs, except for collisions.
#pragma once

#include <cstddef>

#include "graph/program.h"

namespace plimsoll::graph {

// Hashes the tensors and nodes with all their members, but not the program's name. Values are
// comparable only within one process.
size_t Fingerprint(const Program& program);

}  // namespace plimsoll::graph
