// The dependencies between nodes, for passes that move nodes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// By node: earlier nodes that it has to follow. These nodes, with the nodes that they have to
// follow in turn, include all earlier nodes that write a tensor that the node reads or writes, or
// read a tensor that it writes.
using Dependencies = std::vector<std::vector<size_t>>;

// How a view depends on earlier readers of its base. kWrite: the view has to follow them, because
// nodes may write through it. kRead: it may come before them.
enum class Views { kWrite, kRead };

Dependencies DependenciesOf(const Program& program, Views views);

}  // namespace plimsoll::graph
