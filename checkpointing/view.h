// Helpers for passes that replace a tensor by another tensor: they also replace the tensor's views.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::checkpointing {

// By TensorId: the node whose op makes this view; -1 if the tensor is no view, or no node makes it.
std::vector<int> FindViewNodes(const graph::Program& program);

// Adds a view of `base` with the type and offset of `view`, which is a view of another tensor. The
// new view's name is the name of `view` followed by `suffix`.
graph::TensorId AddViewLike(graph::Program& program, graph::TensorId view, graph::TensorId base,
                            const std::string& suffix);

}  // namespace plimsoll::checkpointing
