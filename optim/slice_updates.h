// Updates of large parameters outside the blocks, in slices.
#pragma once

#include <string_view>

#include "graph/pass.h"

namespace plimsoll::optim {

// Runs behind the passes that place parameters on the host and move updates, before HostParameters.
// What an update needs from the host comes to the device as a whole, and for head and embedding
// that may be the largest part of a step's peak. Here the update of a parameter outside any block
// takes as much at a time as a quarter of the largest update of a block, in slices of the
// parameter's elements:
//
//   %w, %w.m, %w.v = adamw(%w, %w.grad, %w.m, %w.v, …)
//
//   %w.slice = slice(%w) {first=0}, %w.grad.slice = slice(%w.grad) {first=0}, …
//   %w.slice, %w.m.slice, %w.v.slice = adamw(%w.slice, %w.grad.slice, …)
//   %w.slice.2 = slice(%w) {first=n}, …
//   %w.slice.2, %w.m.slice.2, %w.v.slice.2 = adamw(%w.slice.2, …) {first_element=n}
//
// Each slice of a tensor on the host then has stays of its own (optim/host_residency.h). All
// numbers are the same, to the bit. The update of a weight that its average reads stays whole, and
// so does one of views.
class SliceUpdates : public graph::Pass {
 public:
  std::string_view name() const override { return "slice_updates"; }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::optim
