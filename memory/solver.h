// The budget solver: the fastest way to run a step under a line of so many bytes.
//
// A step can be run in several variants (micro-batch against accumulation, place of the optimizer's
// state), and in each every saved activation can be kept, recomputed or put aside on the host. The
// solver makes one list of candidates that knows nothing of any budget:
//
// 1. The options of one block (memory/block_options.h): the Pareto front of kept bytes against
//    seconds over all subsets of its tensors. Blocks that look alike share it.
// 2. For each option, the timeline of the program in which all blocks take it. The peak of every
//    mixture follows by addition (memory/block_profile.h): the first k blocks take one option, the
//    rest another that keeps more, one block in between a third, and the last block may keep all.
//    Early blocks keep less: what they keep stands all through the backward pass, while late
//    blocks' memory is free again before the gradients have piled up.
// 3. The named policies, and, as far as a bound of work goes, every candidate on the front with one
//    decision changed.
//
// Objectives of one step (an adversarial pair) are decided apart: a step takes as long as all their
// programs together, and of memory as much as the hungriest. So for every peak that one of them may
// have, each takes its fastest candidate within it.
//
// A budget then filters the list. Candidates are planned exactly in the order of their predicted
// time, and the first that fits is the answer: right for the arena, not for an estimate. As the
// list doesn't depend on the budget, a greater budget never gives a slower step.
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

// A finished program of a step.
struct StepProgram {
  std::shared_ptr<const graph::Program> program;
  int64_t times = 1;  // it runs in a step; 0: it only has to fit (evaluation)
  int base = 0;       // of Variant::bases, whose decisions shape it; with times 0 none do
};

// One way to cut a step into programs, before it is decided what is kept.
struct Variant {
  std::string name;  // "4 × 8 sequences"; empty: the only one
  // Training programs before recomputation, one of each objective that the step trains.
  std::vector<std::shared_ptr<const graph::Program>> bases;
  std::vector<Decision> decisions;
  std::vector<std::pair<std::string, Assignment>> policies;  // by name: "none", "block"
  // The programs that the step consists of when the decisions are these.
  std::function<std::vector<StepProgram>(const Assignment&)> realize;
};

struct SolverOptions {
  PlanOptions plan = {};
  int options = 20;  // of a block; 0: the named policies alone
  // Bound of the improvement by single changes: nodes of programs made and looked at.
  int64_t work = 30'000;
  // That the search runs on; nullptr: the caller's thread alone. It finds the same on any.
  ThreadPool* pool = nullptr;
};

// Lines for the two arenas.
struct Budget {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t device = kNone;
  int64_t host = kNone;
  DeviceProfile profile = {};  // what the process takes of the device besides

  // The device's line for the whole process.
  int64_t process() const { return device == kNone ? kNone : profile.ProcessBytes(device); }
};

// What planning a candidate gave.
struct ExactPlan {
  int64_t arena_bytes = 0;
  // The least line for the device that takes the plan: its arena or, where more was predicted for
  // it, that. A line must not depend on which candidates happen to be planned already.
  int64_t needed_bytes = 0;
  int64_t max_live_bytes = 0;
  int64_t host_arena_bytes = 0;
  double seconds = 0;            // of a step, predicted
  double recompute_seconds = 0;  // of that: nodes that recompute, and copies to the host and back
};

struct Candidate {
  size_t variant = 0;
  std::string policy;  // of a named one
  Assignment assignment;
  double seconds = 0;      // predicted by addition
  int64_t peak_bytes = 0;  // the same, persistent tensors included
  std::optional<ExactPlan> exact;
};

class Solver {
 public:
  Solver(std::vector<Variant> variants, const CostModel& cost, const SolverOptions& options = {});
  ~Solver();

  const std::vector<Variant>& variants() const;

  // The fastest candidate within the budget, planned; nullptr when none fits.
  const Candidate* Fastest(const Budget& budget);

  // The candidate that needs least of the device within the host's line, planned. Where none is
  // within that, the one that needs least of the host, within the device's line if there is one.
  // So, when nothing fits `budget`, a line raised to what this candidate needs, or both, is met.
  const Candidate& Smallest(const Budget& budget = {});

  // At most `count` candidates from the fastest to the smallest, planned, each smaller and slower
  // than the one before, and with the fastest of each of `budgets` among them.
  std::vector<const Candidate*> Front(int count, std::span<const int64_t> budgets = {});

  // A named policy of a variant, planned; nullptr when it has none of that name.
  const Candidate* Policy(size_t variant, const std::string& name);

  // All candidates, the fastest first by prediction.
  const std::vector<Candidate>& candidates() const;
  const ExactPlan& Exact(size_t index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::memory
