// What has to happen before a node, for passes that move nodes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// By node: earlier nodes that it has to follow. With what these have to follow in turn, they are
// all that write what it reads, that read what it writes, or that write it.
using Dependencies = std::vector<std::vector<size_t>>;

// What a view means for those that read its base before: kWrites, it has to follow them, as what
// writes through it has to; kReads, it may come before them.
enum class Views { kWrite, kRead };

Dependencies DependenciesOf(const Program& program, Views views);

}  // namespace plimsoll::graph
