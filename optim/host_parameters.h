// Offload of parameters, which live on the host: their weights (memory.weights), the gradients that
// micro-steps carry (memory.gradients), and the optimizer's state (optimizer.place). Each of these
// tensors comes to the device for as long as it is needed there. Ren et al. 2021, "ZeRO-Offload",
// keep the state on the host, too, but also compute the update there; Rajbhandari et al. 2021,
// "ZeRO-Infinity", fetch weights as this pass does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::optim {

struct HostParametersOptions {
  bool weights = false;
  bool gradients = false;  // those that micro-steps carry
  bool state = false;      // moments, their scales, remainders, masters, averages
  // The blocks whose parameters, with their gradients and state, may leave, by the names of
  // graph::BlockIn: a tensor has the name of its parameter, and so its block. Empty: those of all
  // blocks and those outside any block.
  std::vector<std::string> blocks = {};
  // Weights and gradients with fewer bytes stay on the device: their copies would cost more time
  // than the memory is worth. State of any size leaves.
  int64_t least_bytes = int64_t{256} << 10;
  // Bytes under way beside the computation, each way. By default twice those of the largest group
  // of stays that begins within a block.
  std::optional<int64_t> ahead_bytes = std::nullopt;

  bool any() const { return weights || gradients || state; }
};

// Runs on each program of a step, behind Update. Selected tensors, with their views, become
// Place::kHost. Counters and the loss scale stay on the device, which reads them at each node.
class PlaceOnHost : public graph::Pass {
 public:
  explicit PlaceOnHost(HostParametersOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "place_on_host"; }
  graph::Contract contract() const override {
    return {.gives = {graph::Fact::kPlaced}, .spoils = {}};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  HostParametersOptions options_;
};

// Updates of large parameters outside the blocks, in slices.
//
// Runs after the passes that place parameters on the host and move updates, before HostParameters.
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
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kUpdated},
            .gives = {graph::Fact::kSliced},
            .spoils = {graph::Fact::kResident, graph::Fact::kScratched},
            .keeps_numbers = true};
  }
  graph::PassResult Run(graph::Program& program) override;
};

// Runs behind all passes that add or move nodes which read parameters. From the first use of a
// tensor on the host in a region of the program to its last one (optim/host_residency.h) it is
// on the device, in temporaries:
//
//   %w.staged = copy_start(%w)              when the group of stays before it begins
//   %w.loaded = copy_done(%w.staged, %w)    before its first use
//   %w.updated = adamw(%w.loaded, …)        a new temporary, which takes the memory of the old one
//   %w = copy_start(%w.updated)             behind its last use, if it has changed
//   %w.stored = copy_done(%w, %w.updated)   before it is loaded again, or more than `ahead_bytes`
//                                           are on their way to the host
//
// When a group of stays begins, the loads of the next one start, and of further ones as long as
// they have together at most `ahead_bytes`; none starts earlier than one region ahead. Groups
// differ in size, and so do the nodes that use them: while the longest node runs, the largest group
// arrives and the link needs a further one to go on with, or else copies and computation wait for
// each other in turn. Beyond twice the largest group more is hardly faster. In the update at the
// end of a step copies take longer than everything else: there as many bytes are on their way, each
// way, as the peak of the program has room for, or as the largest group of a block, if that is
// more. Without blocks one group is loaded ahead, and begins only when the one before it is stored,
// so that no more than two are staged.
//
// The norm of the gradients reads all of them at once. If some live on the host it is taken apart
// into sums of squares, each behind the last node that writes its gradient; it has the same bits.
class HostParameters : public graph::Pass {
 public:
  explicit HostParameters(HostParametersOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "host_parameters"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kPlaced},
            .gives = {graph::Fact::kResident},
            .spoils = {graph::Fact::kByLoss, graph::Fact::kScratched}};
  }
  // Copies to and from such tensors that are there already stay as they are. InternalError when a
  // node changes a part of such a tensor.
  graph::PassResult Run(graph::Program& program) override;

 private:
  HostParametersOptions options_;
};

}  // namespace plimsoll::optim
