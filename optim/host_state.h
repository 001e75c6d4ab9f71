// optimizer.place: host. Moments and master weights live in host memory, which is larger; each
// update copies them to the device for as long as it runs. Ren et al. 2021, "ZeRO-Offload", keep
// this state on the host too, but also compute the update there.
#pragma once

#include "graph/pass.h"

namespace plimsoll::optim {

// Runs after Update. The carried tensors that an update writes besides its parameter (moments,
// their scales, remainders, masters), and the parameter's average, become Place::kHost. Counters
// and the loss scale stay on the device, which reads them at each node. Each update works on
// copies:
//
//   start loading (1)
//   for each group of updates i:
//     done storing (i − 1)      its staging memory is free again
//     start loading (i + 1)     hidden behind update i and the storing of i
//     done loading (i)
//     update (i), average (i)   from the copies to fresh temporaries, which take their memory
//     start storing (i)         hidden behind the loading of i + 1
//   done storing (last)
//
// So transfers go in both directions at once, and never more than two groups are staged. A third
// buffer would hide the update's own arithmetic as well, but that is short compared with the
// copies.
//
// A group is one parameter, or several neighbours that together have at most a quarter of the
// largest one's state: otherwise, when a matrix stands between two biases, nothing would hide its
// transfer.
class HostState : public graph::Pass {
 public:
  std::string_view name() const override { return "host_state"; }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::optim
