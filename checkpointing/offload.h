// Activation offload: a pass that copies saved activations to the host, and prefetches them for the
// backward pass.
//
// A tensor tagged `offload` is evicted after its last use in the forward pass, and prefetched
// before its first use in the backward pass:
//
//   forward    %x.host = copy_start(%x)             after the last node that reads %x
//              %x.away = copy_done(%x.host, %x)     when the copy has ended, or where
//                                                   another eviction needs the room; then
//                                                   %x's bytes are free
//   backward   %x.back = copy_start(%x.away)        in time for its first use, when there is room
//              %x.here = copy_done(%x.back, %x.away)  before the first node that reads %x
//
// Tensors that are evicted, or needed, at the same node are copied as a group. Two groups may be in
// flight each way. If the times of copies are known, the limit is instead twice the bytes of the
// block or group that copies most, because a copy may take longer than the nodes until the next
// copy starts. Every copy is done before the program's forward or backward phase ends.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "graph/op.h"
#include "graph/pass.h"

namespace plimsoll::checkpointing {

// Durations of nodes and copies, from which the pass schedules the copies. Without durations, each
// copy starts as early and is awaited as late as the limit on copies in flight allows.
struct OffloadOptions {
  std::function<double(const graph::OpCall&)> node_seconds = nullptr;
  std::function<double(int64_t bytes)> copy_seconds = nullptr;  // the time of a copy in either
                                                                // direction
};

class Offload : public graph::Pass {
 public:
  explicit Offload(OffloadOptions options = {}) : options_(std::move(options)) {}

  std::string_view name() const override { return "offload"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTagged},
            .gives = {graph::Fact::kOffloaded},
            .spoils = {graph::Fact::kByLoss, graph::Fact::kScratched},
            .keeps_numbers = true};
  }
  // Runs after the pass Recompute, whose clones may read offloaded tensors, and before workspaces
  // are added.
  graph::PassResult Run(graph::Program& program) override;

 private:
  OffloadOptions options_;
};

}  // namespace plimsoll::checkpointing
