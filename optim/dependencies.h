// What has to happen before a node, for passes that move nodes of the update.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

// By node: the earlier nodes that write what it reads, that read what it writes, or that write it.
using Dependencies = std::vector<std::vector<size_t>>;

Dependencies DependenciesOf(const graph::Program& program);

}  // namespace plimsoll::optim
