// optimizer.in_backward: updates move into the backward pass. Lv et al. 2023, "Full Parameter
// Fine-tuning for Large Language Models with Limited Resources", section 3.1; PyTorch calls it
// "optimizer in backward". A gradient then lives only until its parameter is updated, and the
// following gradients reuse its memory.
#pragma once

#include <cstdint>

#include "graph/pass.h"

namespace plimsoll::optim {

struct UpdateInBackwardOptions {
  // The updates of gradients with fewer bytes are not moved, because updates at the end of the step
  // share launches.
  int64_t least_bytes = int64_t{256} << 10;
  // Whether updates of accumulated gradients move, too. On the device this frees no memory, unless
  // these gradients become temporaries (graph/step_passes.h). On the host, gradients then need not
  // be written back and fetched again.
  bool carried = false;
};

// Muon's update of a matrix is a chain of nodes, which move together. The chain does not move if it
// gathers the matrix from data ranks, because these collectives keep their order at the end of the
// step.
//
// Runs after all passes that add or move nodes which read parameters. Moves each node of the update
// that depends on only one gradient to the first place after the nodes that it depends on: the
// gradient is complete, and all earlier readers of the parameter have run. For that the norm of the
// gradients is divided into sums of squares:
//
//   %grad_norm = global_norm(%a.grad, %b.grad)
//
//   %a.grad.squares = square_sum(%a.grad)       where a is updated
//   %b.grad.squares = square_sum(%b.grad)
//   %grad_norm = root_of_sums(%a.grad.squares, %b.grad.squares)
//
// The norm has the same bits as before (ops/reductions/reduce.h), and so have all other results.
// Updates that need the norm of all gradients (clipping by it, loss scaling, skipping steps whose
// gradients are not finite) cannot move; then the program is not changed.
class UpdateInBackward : public graph::Pass {
 public:
  explicit UpdateInBackward(UpdateInBackwardOptions options = {}) : options_(options) {}
  std::string_view name() const override { return "update_in_backward"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kUpdated},
            .gives = {graph::Fact::kMoved},
            .spoils = {graph::Fact::kTemporary, graph::Fact::kSliced, graph::Fact::kResident,
                       graph::Fact::kByLoss, graph::Fact::kScratched},
            .keeps_numbers = true};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  UpdateInBackwardOptions options_;
};

}  // namespace plimsoll::optim
