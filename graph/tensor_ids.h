// Walks over the tensors of a program and of its nodes.
#pragma once

#include <map>
#include <ranges>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// The ids of all tensors, in their order. Tensors that are added during the walk are not included.
inline auto TensorIds(const Program& program) {
  return std::views::iota(TensorId{0}, static_cast<TensorId>(program.tensors().size()));
}

// The inputs or outputs of a node that are not absent.
inline auto Present(const std::vector<TensorId>& ids) {
  return ids | std::views::filter([](TensorId id) { return id != kNoTensor; });
}

// The substitute of `id`; without a substitute, `id` itself.
inline TensorId Substitute(const std::map<TensorId, TensorId>& substitutes, TensorId id) {
  const auto found = substitutes.find(id);
  return found == substitutes.end() ? id : found->second;
}

}  // namespace plimsoll::graph
