// Offloads activations to host memory.
//
// A tensor tagged `offload` leaves after its last use in the forward pass and is back before the
// backward pass first uses it:
//
//   forward    %x.host = copy_start(%x)             behind the last node that reads %x
//              %x.away = copy_done(%x.host, %x)     where the second departure after it starts:
//                                                   %x's bytes are free from here on
//   backward   %x.back = copy_start(%x.away)        when the second arrival before it is done
//              %x.here = copy_done(%x.back, %x.away)  before the first node that reads %x
//
// So two departures or two arrivals at a time run beside the computation, each with its own buffer:
// a copy may take longer than the nodes until the next one starts. Tensors that leave, or are
// needed, at the same node are copied together. Every copy is done before the program's forward or
// backward phase ends.
#pragma once

#include "graph/pass.h"

namespace plimsoll::checkpointing {

class Offload : public graph::Pass {
 public:
  std::string_view name() const override { return "offload"; }
  // Runs after Recompute, whose clones may read offloaded tensors, and before workspaces are added.
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::checkpointing
