// The ranges that NVIDIA's Nsight tools show for an enqueued program. The program's range contains
// one for each phase of a micro-step, and a phase's range contains one for each node, "block.3.attn
// linear".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/ranges.h"
#include "graph/program.h"

namespace plimsoll::runtime {

class CudaRanges {
 public:
  // The program must outlive this object.
  explicit CudaRanges(const graph::Program& program) : program_(program) {
    for (const graph::Node& node : program.nodes()) {
      names_.push_back(node.scope.empty() ? node.op->name : node.scope + " " + node.op->name);
    }
  }

  // One pass over the program.
  class Pass {
   public:
    explicit Pass(const CudaRanges& ranges)
        : ranges_(ranges), program_(ranges.program_.name().c_str()) {}

    // Work enqueued until the result is destroyed belongs to this node. Call this in the order of
    // nodes.
    gpu::Range Node(int node) {
      const graph::Node& here = ranges_.program_.nodes()[node];
      if (!phase_ || here.phase != in_ || here.micro_step != micro_step_) {
        phase_.reset();
        phase_.emplace(graph::Name(here.phase).data());
        in_ = here.phase;
        micro_step_ = here.micro_step;
      }
      return gpu::Range(ranges_.names_[node].c_str());
    }

   private:
    const CudaRanges& ranges_;
    gpu::Range program_;
    std::optional<gpu::Range> phase_;
    graph::Phase in_ = graph::Phase::kForward;
    int32_t micro_step_ = 0;
  };

 private:
  const graph::Program& program_;
  std::vector<std::string> names_;  // the range name of each node
};

}  // namespace plimsoll::runtime
