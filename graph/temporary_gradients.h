// Gradients of micro-steps that one program holds together.
#pragma once

#include "graph/pass.h"

namespace plimsoll::graph {

// Micro-steps carry gradients in persistent tensors, each changed in place. Where a program holds
// all micro-steps of an update, such a gradient is written there before anything reads it, and
// nothing needs it afterwards: it becomes a temporary, whose memory others use before and after.
// Temporaries are written once, so each sum but the last is a tensor of its own:
//
//   %w.grad = linear_dw(%x, %dy)                       %w.grad.sum = linear_dw(%x, %dy)
//   %w.grad = linear_dw(%x1, %dy1, %w.grad)            %w.grad = linear_dw(%x1, %dy1, %w.grad.sum)
//
// which share memory by the op's in-place pair. Runs on the program of a whole update only, when its
// updates are where they stay: what other programs read of a gradient would be lost. Gradients of which a part is taken before the
// last sum stay as they are, and so do those on the host that the update at the end of the program
// reads: they leave the device until then. One that is read sooner is a temporary of the device.
class TemporaryGradients : public Pass {
 public:
  std::string_view name() const override { return "temporary_gradients"; }
  PassResult Run(Program& program) override;
};

}  // namespace plimsoll::graph
