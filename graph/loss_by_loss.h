// Where a loss is a sum of losses, each is computed when the gradients of those before it are done:
// what they kept for their gradients then needs no memory any more.
//
//   forward                        forward
//     %real = …                      %real = …
//     %fake = …                    backward
//     %loss = add(%real, %fake)      … of %real
//   backward                       forward
//     … of %real                     %fake = …
//     … of %fake                     %loss = add(%real, %fake)
//                                  backward
//                                    … of %fake
#pragma once

#include <string>
#include <utility>

#include "graph/pass.h"

namespace plimsoll::graph {

// Moves forward nodes only; the others keep their order, in which Autodiff takes the gradients of
// one loss after the other. No number depends on it. A forward node that no loss reads stays behind
// what it reads or, where that is nothing, behind the node before it.
// For programs of one micro-step, behind the passes that tell the forward pass by its place.
class LossByLoss : public Pass {
 public:
  // `loss`: the tensor that is trained; a program without it is left as it is.
  explicit LossByLoss(std::string loss) : loss_(std::move(loss)) {}
  std::string_view name() const override { return "loss_by_loss"; }
  PassResult Run(Program& program) override;

 private:
  std::string loss_;
};

}  // namespace plimsoll::graph
