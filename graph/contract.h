// Contracts of passes: the facts about a program that a pass needs, establishes and spoils. They
// decide in which order passes may run.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace plimsoll::graph {

// Facts that may hold of a program, in the order in which passes establish them.
enum class Fact {
  kTyped,           // tensors have the types of the precision
  kMarked,          // layers that are to multiply 8-bit codes are marked
  kSplit,           // layers are sharded over the tensor axis
  kCached,          // attention reads earlier tokens from a cache
  kDifferentiated,  // the program has gradients
  kQuantized,       // marked layers multiply codes
  kUpdated,         // parameters are updated
  kDivided,         // the optimizer's state is sharded among data ranks
  kCut,             // pipeline ranks have one stage each
  kGathered,        // parameters are sharded among data ranks, and gathered before they are read
  kReduced,         // data ranks sum gradients and metrics
  kPlaced,          // tensors that live on the host are chosen
  kSimplified,      // all nodes are needed
  kFused,           // neighbouring ops are fused
  kTagged,          // the retention of activations is chosen
  kRecomputed,      // the activations that are not kept are recomputed
  kPrefetched,      // gathers of parameters start early
  kJoined,          // a program holds several micro-steps or updates
  kOrdered,         // micro-steps run block by block
  kMoved,           // updates are at their final positions
  kTemporary,       // gradients of a complete update are temporaries
  kSliced,          // large updates are done in slices
  kResident,        // tensors that live on the host are copied to the device for their readers
  kOffloaded,       // activations are offloaded to the host
  kByLoss,          // one loss is computed after the gradients of another
  kScratched        // kernels have their scratch memory
};
using Facts = std::set<Fact>;

std::string_view Name(Fact fact);
// "typed, fused"; "all from typed on"; "nothing".
std::string Text(const Facts& facts);
// The fact `first` and all facts after it in the list.
Facts FactsFrom(Fact first);

struct Contract {
  Facts needs = {};  // facts that must hold before the pass
  Facts gives = {};  // facts that hold after the pass
  // Facts that no longer hold after the pass, because it adds, moves or replaces nodes or tensors.
  // A pass after it has to establish these facts again.
  Facts spoils = {Fact::kScratched};
  bool keeps_numbers = false;  // the losses are the same without the pass: debug.without may name
                               // it
};

}  // namespace plimsoll::graph
