// optimizer.place: host. Moments and master weights live in host memory, where there is more of it;
// each update borrows the device's for as long as it takes. Ren et al. 2021, "ZeRO-Offload", keep
// this state on the host too, but also compute there.
#pragma once

#include "graph/pass.h"

namespace plimsoll::optim {

// Runs after Update. The carried tensors that an update writes beside its parameter (moments, their
// scales, remainders, masters) become Place::kHost; counters and the loss scale, which the device
// reads at each node, stay. Each update works on copies:
//
//   start loading (1)
//   for each parameter i:
//     done storing (i − 1)      its staging memory is free again
//     start loading (i + 1)     hidden behind update i and the storing of i
//     done loading (i)
//     update (i)                from the copies to fresh temporaries, which take their memory
//     start storing (i)         hidden behind the loading of i + 1
//   done storing (last)
//
// So loads and stores go in both directions at once, and never more than two parameters' state is
// staged. A third buffer would hide the update's own arithmetic as well, which is short beside the
// copies of what it touches.
class HostState : public graph::Pass {
 public:
  std::string_view name() const override { return "host_state"; }
  bool preserves_numerics() const override { return true; }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::optim
