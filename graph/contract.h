// What passes require, give and spoil: in which order they may run.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace plimsoll::graph {

// What holds of a program, in the order in which it comes to be.
enum class Fact {
  kTyped,           // tensors have the types of the precision
  kMarked,          // layers that multiply 8-bit codes are marked
  kSplit,           // layers are split over the tensor axis
  kCached,          // attention reads earlier tokens from a cache
  kDifferentiated,  // there are gradients
  kQuantized,       // marked layers multiply codes
  kUpdated,         // parameters are updated
  kDivided,         // data ranks divide the optimizer's state
  kCut,             // pipeline ranks keep a stage each
  kGathered,        // data ranks divide parameters, which are gathered where they are read
  kReduced,         // data ranks sum gradients and metrics
  kPlaced,          // tensors that live on the host are named
  kSimplified,      // all nodes are needed
  kFused,           // neighbouring ops are one
  kTagged,          // it is decided which activations are kept
  kRecomputed,      // the others are computed again
  kPrefetched,      // parameters are gathered before they are read
  kJoined,          // a program holds several micro-steps or updates
  kOrdered,         // micro-steps go block by block
  kMoved,           // updates are where they stay
  kTemporary,       // gradients of the whole update are temporaries
  kSliced,          // large updates are done in slices
  kResident,        // what lives on the host is copied to where it is read
  kOffloaded,       // activations wait on the host
  kByLoss,          // one loss is computed after the gradients of another
  kScratched        // kernels have their scratch memory
};
using Facts = std::set<Fact>;

std::string_view Name(Fact fact);
// "typed, fused"; "all from typed on"; "nothing".
std::string Text(const Facts& facts);
// That one and all after it in the list.
Facts FactsFrom(Fact first);

struct Contract {
  Facts needs = {};  // hold when the pass begins
  Facts gives = {};  // hold when it has run
  // Hold no longer, since it adds, moves or replaces what they are about. A pass after it has to
  // give them again.
  Facts spoils = {Fact::kScratched};
  bool keeps_numbers = false;  // without it the same numbers come out: debug.without may name it
};

}  // namespace plimsoll::graph
