#include "parallel/sync_norm.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/amounts.h"
#include "base/axes.h"
#include "graph/builder.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "ops/norms/batch_norm.h"

namespace plimsoll::parallel {

using graph::Node;
using graph::TensorId;

graph::PassResult SyncNorm::Run(graph::Program& program) {
  graph::Builder g(program);
  g.set_made_by("sync_norm");
  std::map<TensorId, TensorId> merged_of;  // maps a rank's own statistic to the merged statistic
  int norms = 0;
  for (Node& node : std::exchange(program.mutable_nodes(), {})) {
    for (TensorId& id : node.inputs) id = graph::Substitute(merged_of, id);
    program.mutable_nodes().push_back(node);
    if (node.op->name != "batch_norm_statistics" || node.attributes.GetInt("groups") != 1) continue;
    g.set_scope(node.scope);
    g.set_phase(node.phase);
    const TensorId mean = node.outputs[0], variance = node.outputs[1];
    const graph::Shape all = {ranks_, g.shape(mean).dim(1)};
    const TensorId means = ops::AllGather(g, mean, kDataAxis, all, "means");
    const TensorId variances = ops::AllGather(g, variance, kDataAxis, all, "variances");
    const ops::BatchStatistics merged = ops::MergeBatchNormStatistics(
        g, means, variances, g.shape(node.inputs[0]).rows(), "merged_statistics");
    merged_of[mean] = merged.mean;
    merged_of[variance] = merged.variance;
    if (node.outputs[2] != graph::kNoTensor) merged_of[node.outputs[2]] = merged.unbiased;
    ++norms;
  }
  return {norms > 0, fmt::format("{} over {} ranks", Counted(norms, "norm"), ranks_)};
}

}  // namespace plimsoll::parallel
