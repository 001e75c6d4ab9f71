// The dependencies between nodes, for passes that move nodes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// By node: earlier nodes that it has to follow. Together with the nodes that these have to follow,
// they are all nodes that write what it reads, read what it writes, or write what it writes.
using Dependencies = std::vector<std::vector<size_t>>;

// How a view depends on earlier readers of its base. kWrite: the view has to follow them, because
// nodes may write through it. kRead: it may come before them.
enum class Views { kWrite, kRead };

Dependencies DependenciesOf(const Program& program, Views views);

}  // namespace plimsoll::graph
