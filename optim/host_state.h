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
//   for each group of updates i:
//     done storing (i − 1)      its staging memory is free again
//     start loading (i + 1)     hidden behind update i and the storing of i
//     done loading (i)
//     update (i)                from the copies to fresh temporaries, which take their memory
//     start storing (i)         hidden behind the loading of i + 1
//   done storing (last)
//
// So loads and stores go in both directions at once, and never more than two groups are staged. A
// third buffer would hide the update's own arithmetic as well, which is short beside the copies of
// what it touches.
//
// A group is one parameter, or several neighbours that together have at most a quarter of the
// largest one's state: a matrix between two biases would travel with nothing to hide it.
class HostState : public graph::Pass {
 public:
  std::string_view name() const override { return "host_state"; }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::optim
