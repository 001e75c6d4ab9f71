// The candidates of one variant: combinations of fates of its saved activations.
//
// 1. The options of each block (memory/block_options.h), their effect on memory and time
//    (memory/block_shapes.h), and their cost in this variant (memory/block_costs.h).
// 2. The fastest combination of options for every peak (memory/option_front.h). If copies overlap
//    with computation, or a block drops results that others read, a combination's cost is not a sum
//    over blocks. Then the sum is an estimate, and the combinations of evenly spaced peaks are
//    measured on their programs. If parameters are offloaded, some combinations are measured, and
//    the estimates of the others are corrected by them.
// 3. The named policies; estimates if parameters are offloaded.
// 4. Within a bound of work, candidates of the front with one decision changed.
// 5. Unless parameters are offloaded, combinations with chains of blocks (memory/block_chains.h)
//    that gain enough, measured on their programs. They replace no other candidate.
//
// Objectives of one step (an adversarial pair) are decided separately: the step's time is the sum
// over their programs, its memory the maximum. For every peak that a candidate of some objective
// has, each objective takes its fastest candidate within that peak.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "memory/block_shapes.h"
#include "memory/cost.h"
#include "memory/cost_model.h"
#include "memory/plan.h"
#include "memory/variant.h"

namespace plimsoll::memory {

// The result of planning a candidate.
struct ExactPlan {
  int64_t arena_bytes = 0;
  // The smallest device limit within which the plan is chosen: the larger of taken_bytes and the
  // predicted bytes. With taken_bytes alone, the choice would depend on which candidates happen to
  // be planned already.
  int64_t needed_bytes = 0;
  // The bytes that count against the device limit: the device arena; with one memory, both arenas.
  int64_t taken_bytes = 0;
  int64_t max_live_bytes = 0;
  int64_t host_arena_bytes = 0;
  int64_t host_bytes = 0;  // the host arena and buffers of inputs (MemoryPlan::host_bytes)
  double seconds = 0;      // the predicted seconds of a step
  // The part of `seconds` for recomputation and for copies to and from the host.
  double recompute_seconds = 0;
};

struct Candidate {
  size_t variant = 0;
  std::string policy;  // the name of a named policy; empty for other candidates
  Fates fates;
  // The predicted seconds of a step, and the most bytes alive at once, persistent tensors included.
  // Both are sums over blocks, or were measured on the candidate's programs (kExact).
  Cost predicted;
  std::optional<Cost> made;  // the cost measured on the candidate's programs
  std::optional<ExactPlan> exact;
};

// `index`: Candidate::variant of the results. `keep`: the use of this variant's step that keeps
// everything. `shapes`: the shapes of this variant or of another variant with the same decisions;
// unused with several bases. The result has no candidate that another candidate beats in predicted
// seconds and peak, except named policies and rough estimates.
std::vector<Candidate> FindCandidates(const Variant& variant, size_t index, const KeptUse& keep,
                                      const CostModel& cost, const SolverOptions& options,
                                      const BlockShapes* shapes = nullptr);

}  // namespace plimsoll::memory
