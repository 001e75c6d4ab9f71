#include "parallel/split_norm.h"

#include <utility>
#include <vector>

#include "ops/collectives/collective.h"

namespace plimsoll::parallel {

void GatherSplitNorm(graph::Builder& g, graph::Node& norm, const std::set<graph::TensorId>& split,
                     std::string_view axis, int64_t ranks) {
  std::vector<graph::Value> parts, rest;
  for (graph::Value id : norm.inputs) (split.contains(id) ? parts : rest).push_back(id);
  if (parts.empty()) return;
  const graph::Value own = g.Emit1("global_norm", std::move(parts), {}, "split_norm");
  rest.insert(rest.begin(), ops::AllGather(g, own, axis, {ranks}, "split_norms"));
  norm.inputs = std::move(rest);
}

}  // namespace plimsoll::parallel
