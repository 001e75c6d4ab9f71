// Views of tensors that a pass replaces by other ones.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::checkpointing {

// By TensorId: the node whose op makes this view, or -1 (no view, or made without a node).
std::vector<int> FindViewNodes(const graph::Program& program);

// Adds a view of `base` that corresponds to `view` of its own base; its name is that of `view` and
// `suffix`.
graph::TensorId AddViewLike(graph::Program& program, graph::TensorId view, graph::TensorId base,
                            const std::string& suffix);

}  // namespace plimsoll::checkpointing
