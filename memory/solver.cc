#include "memory/solver.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/parallel_each.h"
#include "memory/candidates.h"

namespace plimsoll::memory {
namespace {

// The predicted peak may be a little too high for tensors that travel to the host and back.
constexpr double kOffloadSlack = 1.005;
// Predicted seconds (by addition) and a plan's seconds (the sum over its nodes) differ by rounding,
// and by more where copies of one block run beside another. So candidates this close to the first
// that fits are compared by their plans.
constexpr double kTie = 1 + 1e-6, kOffloadTie = 1.005;

bool Offloads(const Candidate& candidate) {
  return std::find(candidate.assignment.begin(), candidate.assignment.end(),
                   graph::Retention::kOffload) != candidate.assignment.end();
}

// A lower bound of the peak.
double LeastPeak(const Candidate& candidate) {
  return static_cast<double>(candidate.peak_bytes) / (Offloads(candidate) ? kOffloadSlack : 1.0);
}

}  // namespace

struct Solver::Impl {
  std::vector<Variant> variants;
  const CostModel& cost;
  SolverOptions options;
  std::vector<Candidate> candidates;  // by ascending seconds

  Impl(std::vector<Variant> given, const CostModel& model, const SolverOptions& solver_options)
      : variants(std::move(given)), cost(model), options(solver_options) {
    if (variants.empty()) throw InternalError("solver: no variant to choose from");
    ThreadPool caller(1);
    if (options.pool == nullptr) options.pool = &caller;
    std::vector<std::vector<Candidate>> found(variants.size());
    ParallelEach(*options.pool, variants.size(),
                 [&](size_t i) { found[i] = FindCandidates(variants[i], i, cost, options); });
    options.pool = nullptr;  // the search is over
    for (std::vector<Candidate>& of_variant : found) {
      std::ranges::move(of_variant, std::back_inserter(candidates));
    }
    std::stable_sort(
        candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
          return a.seconds != b.seconds ? a.seconds < b.seconds : a.peak_bytes < b.peak_bytes;
        });
  }

  const ExactPlan& Exact(Candidate& candidate) {
    if (candidate.exact) return *candidate.exact;
    const std::vector<StepProgram> step = variants[candidate.variant].realize(candidate.assignment);
    std::vector<const graph::Program*> programs;
    ExactPlan exact;
    for (const StepProgram& part : step) {
      programs.push_back(part.program.get());
      if (part.times == 0) continue;
      const std::vector<double> seconds = cost.NodeSeconds(*part.program);
      for (size_t n = 0; n < seconds.size(); ++n) {
        const graph::Node& node = part.program->nodes()[n];
        const double total = static_cast<double>(part.times) * seconds[n];
        exact.seconds += total;
        if (node.phase == graph::Phase::kRecompute || node.made_by == "offload") {
          exact.recompute_seconds += total;
        }
      }
    }
    const MemoryPlan plan = MakePlan(programs, options.plan);
    exact.arena_bytes = plan.arena_bytes;
    exact.needed_bytes =
        std::max(plan.arena_bytes, static_cast<int64_t>(std::ceil(LeastPeak(candidate))));
    exact.max_live_bytes = plan.max_live_bytes;
    exact.host_arena_bytes = plan.host_arena_bytes;
    return candidate.exact.emplace(exact);
  }

  bool Fits(Candidate& candidate, const Budget& budget) {
    if (LeastPeak(candidate) > static_cast<double>(budget.device)) return false;
    const ExactPlan& exact = Exact(candidate);
    return exact.needed_bytes <= budget.device && exact.host_arena_bytes <= budget.host;
  }

  // The candidate within the host's line that needs least on the device; nullptr if there is none.
  const Candidate* LeastOnDevice(int64_t host) {
    std::vector<Candidate*> order;
    for (Candidate& candidate : candidates) order.push_back(&candidate);
    std::stable_sort(order.begin(), order.end(), [](const Candidate* a, const Candidate* b) {
      return LeastPeak(*a) < LeastPeak(*b);
    });
    // No candidate needs less than its least peak, so the search can stop early.
    const Candidate* best = nullptr;
    for (Candidate* candidate : order) {
      if (best != nullptr &&
          LeastPeak(*candidate) >= static_cast<double>(best->exact->needed_bytes)) {
        break;
      }
      const ExactPlan& exact = Exact(*candidate);
      if (exact.host_arena_bytes > host) continue;
      if (best == nullptr || exact.needed_bytes < best->exact->needed_bytes) best = candidate;
    }
    return best;
  }

  int64_t OffloadedBytes(const Candidate& candidate) const {
    const std::vector<Decision>& decisions = variants[candidate.variant].decisions;
    int64_t bytes = 0;
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (candidate.assignment[d] == graph::Retention::kOffload) bytes += decisions[d].bytes;
    }
    return bytes;
  }

  // Compares, for each variant, the candidate within the device's line that offloads least, and
  // returns the one with the smallest host arena; nullptr if there is none.
  const Candidate* LeastOnHost(int64_t device) {
    std::vector<std::pair<int64_t, Candidate*>> order;
    for (Candidate& candidate : candidates) {
      order.emplace_back(OffloadedBytes(candidate), &candidate);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : LeastPeak(*a.second) < LeastPeak(*b.second);
    });
    std::vector<bool> found(variants.size(), false);
    const Candidate* best = nullptr;
    for (const auto& [bytes, candidate] : order) {
      if (found[candidate->variant] || !Fits(*candidate, {.device = device})) continue;
      found[candidate->variant] = true;
      if (best == nullptr || candidate->exact->host_arena_bytes < best->exact->host_arena_bytes) {
        best = candidate;
      }
    }
    return best;
  }
};

Solver::Solver(std::vector<Variant> variants, const CostModel& cost, const SolverOptions& options)
    : impl_(std::make_unique<Impl>(std::move(variants), cost, options)) {}

Solver::~Solver() = default;

const std::vector<Variant>& Solver::variants() const { return impl_->variants; }

const std::vector<Candidate>& Solver::candidates() const { return impl_->candidates; }

const ExactPlan& Solver::Exact(size_t index) { return impl_->Exact(impl_->candidates[index]); }

const Candidate* Solver::Fastest(const Budget& budget) {
  const bool copies = std::any_of(impl_->candidates.begin(), impl_->candidates.end(), Offloads);
  const double tie = copies ? kOffloadTie : kTie;
  const Candidate* best = nullptr;
  for (Candidate& candidate : impl_->candidates) {
    if (best != nullptr && candidate.seconds > best->exact->seconds * tie) break;
    if (!impl_->Fits(candidate, budget)) continue;
    if (best == nullptr || candidate.exact->seconds < best->exact->seconds) best = &candidate;
  }
  return best;
}

const Candidate& Solver::Smallest(const Budget& budget) {
  if (const Candidate* least = impl_->LeastOnDevice(budget.host)) return *least;
  if (const Candidate* least = impl_->LeastOnHost(budget.device)) return *least;
  return *impl_->LeastOnHost(Budget::kNone);
}

std::vector<const Candidate*> Solver::Front(int count, std::span<const int64_t> budgets) {
  std::vector<const Candidate*> front;
  const auto add = [&](int64_t budget) {
    const Candidate* fastest = Fastest({.device = budget});
    if (fastest != nullptr && std::find(front.begin(), front.end(), fastest) == front.end()) {
      front.push_back(fastest);
    }
  };
  const int64_t least = Smallest().exact->needed_bytes;
  const Candidate* unbounded = Fastest({});
  const int64_t most = std::max(least, unbounded->exact->needed_bytes);
  for (int i = 0; i < count; ++i) {
    add(count == 1 ? most : most - (most - least) / (count - 1) * i);
  }
  add(least);
  for (int64_t budget : budgets) add(budget);
  std::stable_sort(front.begin(), front.end(), [](const Candidate* a, const Candidate* b) {
    return a->exact->arena_bytes > b->exact->arena_bytes;
  });
  return front;
}

const Candidate* Solver::Policy(size_t variant, const std::string& name) {
  for (Candidate& candidate : impl_->candidates) {
    if (candidate.variant != variant || candidate.policy != name) continue;
    impl_->Exact(candidate);
    return &candidate;
  }
  return nullptr;
}

}  // namespace plimsoll::memory
