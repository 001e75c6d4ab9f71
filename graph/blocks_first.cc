#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/micro_step_order.h"
#include "graph/micro_steps.h"
#include "graph/step_passes.h"

namespace plimsoll::graph {

PassResult BlocksFirst::Run(Program& program) {
  const size_t micro_steps = CountMicroSteps(program);
  if (micro_steps < 2) return Refused("one micro-step");
  const ProvenOrder order = Prove(program, RequireOrder("blocks first").stages(program));
  if (order.torn != kNoTensor) {
    return Refused("each micro-step changes '" + program.tensor(order.torn).name +
                   "' in several places, as where weights are tied; in another order it "
                   "would have other bits");
  }
  if (std::ranges::is_sorted(order.nodes)) return Refused("in this order already");
  std::vector<Node> old = std::exchange(program.mutable_nodes(), {});
  for (size_t at : order.nodes) program.mutable_nodes().push_back(std::move(old[at]));
  return {true, std::to_string(micro_steps) + " micro-steps go block by block"};
}

}  // namespace plimsoll::graph
