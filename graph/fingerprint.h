// A number that differs between programs that differ, but for accidents of hashing.
#pragma once

#include <cstddef>

#include "graph/program.h"

namespace plimsoll::graph {

// Of tensors and nodes with all that they say; not of the program's name. Only within one process.
size_t Fingerprint(const Program& program);

}  // namespace plimsoll::graph
