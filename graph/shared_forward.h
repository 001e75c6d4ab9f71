// Forward nodes of a later micro-step that compute what an earlier one has computed already give
// way to those of the earlier one. So two objectives that read the same data share what neither of
// their updates changes: the pictures of a generator serve the update of its discriminator and its
// own.
//
//   forward                                    forward
//     %fake = linear(%noise, %generator.w)       %fake = linear(%noise, %generator.w)
//     …                                          …
//   update                                     update
//     %critic.w = adamw(%critic.w, …)            %critic.w = adamw(%critic.w, …)
//   forward 1                                  forward 1
//     %again = linear(%noise, %generator.w)      %said.2 = linear(%fake, %critic.w)
//     %said.2 = linear(%again, %critic.w)
#pragma once

#include "graph/pass.h"

namespace plimsoll::graph {

// A node gives way if it has the op, attributes and inputs of an earlier one, nothing has been
// written to these inputs or to the results in between, and all that it writes are temporaries. The
// earlier one then also writes results that only this one's readers ask for, and loses its
// workspace, which may be too small for that.
// Nodes that draw random numbers share them only if they have one key and one slot. Transfers and
// what is not forward stay: to compute an activation again is what recomputation means to do.
class ShareForward : public Pass {
 public:
  std::string_view name() const override { return "share_forward"; }
  PassResult Run(Program& program) override;
};

}  // namespace plimsoll::graph
