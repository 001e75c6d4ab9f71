// The budget solver: finds the fastest way to run a step within a given number of bytes.
//
// A step can be run in several variants (micro-batch against accumulation, place of the optimizer's
// state), and in each every saved activation can be kept, recomputed or offloaded to the host. The
// solver makes one list of candidates that is independent of any budget:
//
// 1. The options of one block (memory/block_options.h): the Pareto front of kept bytes against
//    seconds over all subsets of its tensors. Blocks that look alike share it.
// 2. For each option, the timeline of the program in which all blocks take it. The peak of every
//    mixture follows by addition (memory/block_profile.h): the first k blocks take one option, the
//    rest another that keeps more, one block in between a third, and the last block may keep all.
//    Early blocks keep less: they hold their memory through the whole backward pass, while late
//    blocks free theirs before the gradients have accumulated. Options that copy to the host while
//    the GPU computes are taken by blocks evenly among the others (memory/spread_mixtures.h).
// 3. The named policies, and, within a bound of work, every candidate on the front with one
//    decision changed.
//
// Objectives of one step (an adversarial pair) are decided separately: a step's time is the sum
// over their programs, its memory the maximum. So for every peak that one of them may have, each
// takes its fastest candidate within that peak.
//
// A budget then filters the list. Candidates are planned exactly in the order of their predicted
// time, and the first that fits is the answer, so that it is right for the actual arena. As the
// list doesn't depend on the budget, a larger budget never gives a slower step. A variant is
// searched only where a bound of its time and bytes leaves it a chance; candidates below the bound
// are left out, so that this changes no answer. Of variants that are equally fast the first one is
// taken.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "memory/block_options.h"
#include "memory/cost_model.h"
#include "memory/device_profile.h"
#include "memory/plan.h"

namespace plimsoll::memory {

// One program of a step, after all passes.
struct StepProgram {
  std::shared_ptr<const graph::Program> program;
  int64_t times = 1;  // runs per step; 0: it only has to fit (evaluation)
  int base = 0;       // index into Variant::bases: whose decisions shape it; unused with times 0
};

// One way to divide a step into programs, before it is decided which activations are kept.
struct Variant {
  std::string name;  // "4 × 8 sequences"; empty: the only one
  // Training programs before recomputation, one for each objective that the step trains.
  std::vector<std::shared_ptr<const graph::Program>> bases;
  std::vector<Decision> decisions;
  std::vector<std::pair<std::string, Assignment>> policies;  // by name: "none", "block"
  // Micro-steps that one program holds: what is kept stands that often.
  int64_t micro_steps = 1;
  // Makes the step's programs for these decisions.
  std::function<std::vector<StepProgram>(const Assignment&)> realize;
};

struct SolverOptions {
  PlanOptions plan = {};
  int options = 20;  // of a block; 0: the named policies alone
  // Bound for improving by single changes: number of nodes of the programs made and examined.
  int64_t work = 30'000;
  // The host's memory is the device's, as on a CPU: the device's limit holds for both arenas.
  bool one_memory = false;
  // The threads for the search, which must outlive the solver; nullptr: the caller's thread alone.
  // The result is the same.
  ThreadPool* pool = nullptr;
};

// Limits ("lines") for the two arenas.
struct Budget {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t device = kNone;
  int64_t host = kNone;
  DeviceProfile profile = {};  // what the process takes of the device besides the arena

  // The limit for the whole process on the device.
  int64_t process() const { return device == kNone ? kNone : profile.ProcessBytes(device); }
};

// What no candidate of a variant goes below.
struct VariantBounds {
  double seconds = 0;
  // Of persistent tensors; with one memory, those on the host count on both sides.
  int64_t device_bytes = 0, host_bytes = 0;

  bool Within(const Budget& budget) const {
    return device_bytes <= budget.device && host_bytes <= budget.host;
  }
};

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
  double seconds = 0;            // of a step, predicted
  double recompute_seconds = 0;  // the part of it for recomputation and copies to the host and back
};

struct Candidate {
  size_t variant = 0;
  std::string policy;  // name of a named policy, or empty
  Assignment assignment;
  double seconds = 0;      // predicted by addition, or of its programs where that is no sum
  int64_t peak_bytes = 0;  // the same, persistent tensors included
  bool measured = false;   // both are of its programs
  std::optional<ExactPlan> exact;
};

class Solver {
 public:
  Solver(std::vector<Variant> variants, const CostModel& cost, const SolverOptions& options = {});
  ~Solver();

  const std::vector<Variant>& variants() const;
  // 0 where there is one variant alone.
  const VariantBounds& BoundsOf(size_t variant) const;

  // The fastest candidate within the budget, planned; nullptr when none fits. `among`: by variant,
  // whether it may be one of its candidates; empty: of any.
  const Candidate* Fastest(const Budget& budget, const std::vector<bool>& among = {});

  // The candidate that needs least of the device within the host's limit, planned. If there is
  // none, the candidate that needs least of the host, within the device's limit if there is one.
  // So, when nothing fits `budget`, raising one or both limits to this candidate's needs is enough.
  const Candidate& Smallest(const Budget& budget = {});

  // At most `count` candidates from the fastest to the smallest, planned; each is smaller and
  // slower than the one before. The fastest candidate of each of `budgets` is among them.
  std::vector<const Candidate*> Front(int count, std::span<const int64_t> budgets = {});

  // The candidate for a named policy of a variant, planned; nullptr when it has none of that name.
  const Candidate* Policy(size_t variant, const std::string& name);

  // The candidates of a variant, the fastest first by prediction.
  const std::vector<Candidate>& CandidatesOf(size_t variant);
  const ExactPlan& Exact(size_t variant, size_t index);
  // How many candidates there are in the variants that were searched so far.
  size_t searched() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::memory
