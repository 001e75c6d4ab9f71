// The candidates of one variant: which fates its saved activations may have.
//
// 1. The options of each block (memory/block_options.h), what they change (memory/block_shapes.h),
//    and what they cost in this variant (memory/block_costs.h).
// 2. The fastest combination of them for every peak (memory/option_front.h). Where what a
//    combination takes is no sum over blocks, because copies run beside the computation or a block
//    drops what others read, that is an estimate, and those within evenly spaced peaks are measured
//    on their programs. Where parameters travel, too, some are measured and correct the others.
// 3. The named policies, estimated where parameters travel.
// 4. Within a bound of work, what is on the front with one decision changed.
// 5. Unless parameters travel, combinations with chains of blocks (memory/block_chains.h) that gain
//    enough, measured on their programs; they take no other candidate's place.
//
// Objectives of one step (an adversarial pair) are decided separately: a step's time is the sum
// over their programs, its memory the maximum. So for every peak that one of them may have, each
// takes its fastest candidate within that peak.
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
  // The smallest device limit that admits the plan: taken_bytes or, if larger, its predicted need.
  // The limit must not depend on which candidates happen to be planned already.
  int64_t needed_bytes = 0;
  // What the plan takes of the device limit: its arena, with one memory both.
  int64_t taken_bytes = 0;
  int64_t max_live_bytes = 0;
  int64_t host_arena_bytes = 0;
  int64_t host_bytes = 0;        // with what inputs pass through (MemoryPlan::host_bytes)
  double seconds = 0;            // of a step, predicted
  double recompute_seconds = 0;  // the part of it for recomputation and copies to the host and back
};

struct Candidate {
  size_t variant = 0;
  std::string policy;  // name of a named policy, or empty
  Fates fates;
  // By addition, or of its programs (kExact): the seconds, and the most bytes alive at once,
  // persistent tensors included.
  Cost predicted;
  std::optional<Cost> made;  // of its programs
  std::optional<ExactPlan> exact;
};

// `index` is stored in the candidates as their variant; `keep` is of the variant, `shapes` are of
// it, or of another one with the same decisions, and unused with several bases. Candidates that
// another beats in predicted seconds and peak are left out, except named policies and what is too
// roughly estimated.
std::vector<Candidate> FindCandidates(const Variant& variant, size_t index, const KeptUse& keep,
                                      const CostModel& cost, const SolverOptions& options,
                                      const BlockShapes* shapes = nullptr);

}  // namespace plimsoll::memory
