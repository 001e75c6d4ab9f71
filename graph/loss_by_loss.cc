#include <algorithm>

#include "base/amounts.h"
#include "graph/autodiff.h"
#include "graph/dependencies.h"
#include "graph/step_passes.h"

namespace plimsoll::graph {
namespace {

// By node: the number of the loss with which it runs.
std::vector<size_t> FindStages(const Program& program, const std::vector<size_t>& terms) {
  constexpr size_t kOpen = static_cast<size_t>(-1);
  const std::vector<Node>& nodes = program.nodes();
  const Dependencies predecessors = DependenciesOf(program, Views::kRead);
  std::vector<size_t> stages(nodes.size(), kOpen);
  // Goes from the last loss to the first, so that a node gets the number of the first loss that
  // needs it.
  for (size_t t = terms.size(); t-- > 0;) {
    std::vector<size_t> needed = {terms[t]};
    while (!needed.empty()) {
      const size_t n = needed.back();
      needed.pop_back();
      if (stages[n] == t) continue;
      stages[n] = t;
      needed.insert(needed.end(), predecessors[n].begin(), predecessors[n].end());
    }
  }
  size_t before = 0, last = 0;  // `before`: the number of the previous node; `last`: the largest
                                // number of the gradient nodes so far
  for (size_t n = 0; n < nodes.size(); ++n) {
    size_t after = 0;
    for (size_t predecessor : predecessors[n]) after = std::max(after, stages[predecessor]);
    if (nodes[n].phase != Phase::kForward) {
      stages[n] = last = std::max(last, after);
    } else if (stages[n] == kOpen) {
      stages[n] = predecessors[n].empty() ? before : after;
    }
    before = stages[n];
  }
  return stages;
}

}  // namespace

PassResult LossByLoss::Run(Program& program) {
  const TensorId micro = program.Find(MicroStepMetric(loss_)),
                 loss = micro == kNoTensor ? program.Find(loss_) : micro;
  const std::vector<size_t> terms =
      loss == kNoTensor ? std::vector<size_t>{} : LossTerms(program, loss);
  if (terms.size() < 2) return {false, "one loss"};

  const std::vector<size_t> stages = FindStages(program, terms);
  std::vector<Node>& nodes = program.mutable_nodes();
  std::vector<size_t> order;
  for (size_t stage = 0; stage < terms.size(); ++stage) {
    for (const bool forward : {true, false}) {
      for (size_t n = 0; n < nodes.size(); ++n) {
        if (stages[n] == stage && (nodes[n].phase == Phase::kForward) == forward) {
          order.push_back(n);
        }
      }
    }
  }
  if (std::ranges::is_sorted(order)) return {false, "the losses need each other"};
  std::vector<Node> ordered;
  for (size_t n : order) ordered.push_back(std::move(nodes[n]));
  nodes = std::move(ordered);
  return {true, Counted(terms.size(), "loss") + ", one after the other"};
}

}  // namespace plimsoll::graph
