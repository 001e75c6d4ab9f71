// Views of tensors that a pass replaces by other ones.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::checkpointing {

// By TensorId: the node whose op makes this view, or -1 (no view, or made without a node).
std::vector<int> FindViewNodes(const graph::Program& program);

// A view of `base` such as `view` is of its own base, called NAME and `suffix`.
graph::TensorId AddViewLike(graph::Program& program, graph::TensorId view, graph::TensorId base,
                            const std::string& suffix);

}  // namespace plimsoll::checkpointing
