// Offload of parameters: their weights (memory.weights), the gradients that micro-steps accumulate
// (memory.gradients) and the optimizer's state (optimizer.place) are placed on the host. The device
// has a copy of such a tensor only while nodes need it. Ren et al. 2021, "ZeRO-Offload", also keep
// the state on the host, but compute the update on the host, too; Rajbhandari et al. 2021,
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
  bool gradients = false;  // gradients that micro-steps carry
  bool state = false;      // moments, their scales, remainders, masters, averages
  // The blocks whose parameters may be placed on the host, together with their gradients and state,
  // by the names of graph::BlockIn. The name of a gradient or state contains the name of its
  // parameter, and so the name of the block. Empty means all parameters, in blocks and outside.
  std::vector<std::string> blocks = {};
  // Weights and gradients with fewer bytes are kept on the device: their copies would cost more
  // time than the memory is worth. State of any size is placed on the host.
  int64_t least_bytes = int64_t{256} << 10;
  // The limit on bytes in flight each way while nodes compute. The default (nullopt) is twice the
  // bytes of the largest group that is fetched for a block.
  std::optional<int64_t> ahead_bytes = std::nullopt;

  bool any() const { return weights || gradients || state; }
};

// Runs on each program of a step, after Update. Selected tensors, with their views, become
// Place::kHost. Counters and the loss scale are kept on the device, since every update reads them.
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
// Without this pass an update fetches all its tensors from the host at once. For head and embedding
// these tensors may be the largest part of a step's peak. The pass divides the update of a
// parameter outside any block into updates of slices, each with at most a quarter of the bytes of a
// block's largest update:
//
//   %w, %w.m, %w.v = adamw(%w, %w.grad, %w.m, %w.v, …)
//
//   %w.slice = slice(%w) {first=0}, %w.grad.slice = slice(%w.grad) {first=0}, …
//   %w.slice, %w.m.slice, %w.v.slice = adamw(%w.slice, %w.grad.slice, …)
//   %w.slice.2 = slice(%w) {first=n}, …
//   %w.slice.2, %w.m.slice.2, %w.v.slice.2 = adamw(%w.slice.2, …) {first_element=n}
//
// Each slice of a tensor on the host then has separate residencies (optim/host_residency.h). All
// numbers are the same as without slices, to the bit. An update is not divided if an average reads
// its weight, or if it changes views.
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

// Runs after all passes that add or move nodes which read parameters. From the first use of a
// tensor on the host in a region of the program to its last use there (optim/host_residency.h),
// temporaries on the device hold its value:
//
//   %w.staged = copy_start(%w)              when the previous group begins
//   %w.loaded = copy_done(%w.staged, %w)    before its first use
//   %w.updated = adamw(%w.loaded, …)        a new temporary, in the memory of %w.loaded
//   %w = copy_start(%w.updated)             after its last use, if it was updated
//   %w.stored = copy_done(%w, %w.updated)   before %w is fetched again, or when more than
//                                           `ahead_bytes` are in flight to the host
//
// Tensors whose residencies begin at the same node are fetched as a group. When a group begins, the
// next group is prefetched, and further groups as long as `ahead_bytes` allow, but no group earlier
// than one region ahead. The limit must allow two of the largest groups. Otherwise copies and
// computation would wait for each other in turn: while the longest node runs, the copy of the
// largest group may end, and the link needs another group to copy. A larger limit is hardly faster.
// In the update at the end of a step, copies take longer than computation. There the limit is the
// larger of two sizes: the bytes that stay free below the program's peak, and the largest group of
// a block. In a program without blocks only one group is prefetched. It begins only when the group
// before it is written back, so that at most two groups are on the device.
//
// The norm of the gradients reads all gradients at once. If some are on the host, the norm is
// divided into sums of squares, each after the last node that writes its gradient; it has the same
// bits.
class HostParameters : public graph::Pass {
 public:
  explicit HostParameters(HostParametersOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "host_parameters"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kPlaced},
            .gives = {graph::Fact::kResident},
            .spoils = {graph::Fact::kByLoss, graph::Fact::kScratched}};
  }
  // Copies of host tensors that the program already has are not changed. Throws InternalError if a
  // node changes only a part of a tensor on the host.
  graph::PassResult Run(graph::Program& program) override;

 private:
  HostParametersOptions options_;
};

}  // namespace plimsoll::optim
