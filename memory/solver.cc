#include "memory/solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/parallel_each.h"
#include "memory/step_use.h"
#include "memory/variant_bound.h"

namespace plimsoll::memory {
namespace {

// A peak that is predicted as a sum over blocks may exceed the exact peak by these factors:
// slightly if a block's neighbours have other options than when the block was measured, more if
// tensors are copied to the host and back.
constexpr double kSumSlack = 1.001, kOffloadSlack = 1.005;
// A predicted time that is a sum over blocks differs slightly from the time of the finished
// programs, and more if copies of one block overlap with another block. So candidates whose
// predicted times are within these factors of the time of the first candidate that fits are
// compared by their plans.
constexpr double kSumTie = 1.0005, kOffloadTie = 1.005;
// The relative difference between sums of the same seconds in two orders of addition.
constexpr double kSame = 1e-9;
constexpr double kForever = std::numeric_limits<double>::infinity();

// Whether the candidate's predicted seconds and peak are no sums: copies overlap with the
// computation, or blocks drop what other blocks read.
bool Estimated(const Candidate& candidate) {
  return candidate.predicted.kind == Cost::Kind::kEstimate;
}

// Whether `candidate` is faster than `best`, or as fast and of an earlier variant. Both must be
// planned.
bool Better(const Candidate& candidate, const Candidate& best) {
  const double seconds = candidate.exact->seconds, line = best.exact->seconds;
  if (candidate.variant == best.variant) return seconds < line;
  return seconds < line * (1 - kSame) ||
         (candidate.variant < best.variant && seconds <= line * (1 + kSame));
}

// A lower bound on the candidate's peak.
double LeastPeak(const Candidate& candidate) {
  const double slack = candidate.predicted.kind == Cost::Kind::kExact ? 1.0
                       : Estimated(candidate)                         ? kOffloadSlack
                                                                      : kSumSlack;
  return static_cast<double>(candidate.predicted.device_bytes) / slack;
}

// The text is equal for variants that decide about the same tensors in the same number of programs.
std::string DecisionsText(const Variant& variant) {
  std::string text = std::to_string(variant.micro_steps) + " " + std::to_string(variant.slots);
  for (const std::string& of_block : TextsOf(variant)) text += "|" + of_block;
  for (const Decision& decision : variant.decisions) {
    text += " " + decision.tensors.front() + " " + std::to_string(decision.bytes);
  }
  return text;
}

// Whether the node exists because an activation is not kept in the device's memory.
bool IsForMemory(const graph::Program& program, const graph::Node& node) {
  if (node.phase == graph::Phase::kRecompute) return true;
  return graph::IsCopy(node.op->transfer) &&
         program.tensor(node.outputs[0]).role == graph::Role::kActivation;
}

}  // namespace

struct Solver::Impl {
  std::vector<Variant> variants;
  const CostModel& cost;
  SolverOptions options;
  ThreadPool caller{1};
  std::vector<std::optional<KeptUse>> kept;  // by variant: the use of the step that keeps
                                             // everything
  std::vector<VariantBound> bounds;          // by variant; computed with `kept`
  std::vector<size_t> alike;  // by variant: the first variant with equal `activations`
  std::vector<std::unique_ptr<BlockShapes>>
      shapes;  // by variant; nullptr unless the variant is the first of equal variants
  std::vector<std::optional<std::vector<Candidate>>> searched;  // by variant: candidates sorted by
                                                                // seconds

  Impl(std::vector<Variant> given, const CostModel& model, const SolverOptions& solver_options)
      : variants(std::move(given)), cost(model), options(solver_options) {
    if (variants.empty()) throw InternalError("solver: no variant to choose from");
    if (options.pool == nullptr) options.pool = &caller;
    searched.resize(variants.size());
    kept.resize(variants.size());
    bounds.resize(variants.size());
    shapes.resize(variants.size());
    alike.assign(variants.size(), 0);
    std::map<std::string, size_t> known;
    for (size_t i = 0; i < variants.size(); ++i) {
      alike[i] = known.try_emplace(variants[i].activations, i).first->second;
    }
  }

  // The variants that may fit in `device_bytes`, with their bounds computed.
  std::vector<size_t> Within(int64_t device_bytes, const std::vector<bool>& among = {}) {
    std::vector<size_t> within;
    for (size_t i = 0; i < variants.size(); ++i) {
      const bool asked = among.empty() || among[i];
      if (asked && variants[i].least_device_bytes <= device_bytes) within.push_back(i);
    }
    MakeBounds(within);
    return within;
  }

  const Variant& Made(size_t index) {
    Variant& variant = variants[index];
    if (variant.make) std::exchange(variant.make, nullptr)(variant);
    return variant;
  }

  void MakeBounds(std::vector<size_t> some) {
    std::erase_if(some, [&](size_t variant) { return kept[variant].has_value(); });
    ParallelEach(*options.pool, some.size(), [&](size_t i) {
      const Variant& variant = Made(some[i]);
      kept[some[i]] = MeasureKept(variant, options.plan.alignment, cost);
      bounds[some[i]] = VariantBound(variant, *kept[some[i]], cost, options);
    });
  }

  // The shapes (memory/block_shapes.h) of the variant's blocks. They are measured in the first
  // variant with equal decisions, so they do not depend on which variant is searched first.
  const BlockShapes* ShapesOf(size_t variant) {
    if (variants[variant].bases.size() > 1 || options.options == 0) return nullptr;
    size_t first = alike[variant];
    MakeBounds({first});
    if (DecisionsText(variants[first]) != DecisionsText(variants[variant])) first = variant;
    if (!shapes[first]) {
      shapes[first] = std::make_unique<BlockShapes>(variants[first], *kept[first], cost, options);
    }
    return shapes[first].get();
  }

  // Returns the variant's candidates; searches the variant unless that was done before.
  std::vector<Candidate>& CandidatesOf(size_t variant) {
    if (searched[variant]) return *searched[variant];
    MakeBounds({variant});
    std::vector<Candidate> found = FindCandidates(variants[variant], variant, *kept[variant], cost,
                                                  options, ShapesOf(variant));
    // A candidate that the bound excludes in one search must not appear in another.
    std::erase_if(found, [&](const Candidate& candidate) {
      return candidate.predicted.seconds <
             bounds[variant].SecondsWithin(candidate.predicted.device_bytes);
    });
    std::ranges::stable_sort(found, [](const Candidate& a, const Candidate& b) {
      return a.predicted.seconds != b.predicted.seconds
                 ? a.predicted.seconds < b.predicted.seconds
                 : a.predicted.device_bytes < b.predicted.device_bytes;
    });
    return searched[variant].emplace(std::move(found));
  }

  // Variants in ascending order of a bound; variants with equal bounds keep their order.
  template <typename BoundOf>
  std::vector<size_t> OrderedBy(BoundOf bound_of, std::vector<size_t> some) const {
    std::ranges::stable_sort(some, {}, [&](size_t variant) { return bound_of(bounds[variant]); });
    return some;
  }

  // The programs that run for this candidate.
  FinishedStep MakeOf(const Candidate& candidate) const {
    const Variant& variant = variants[candidate.variant];
    if (variant.cut) return variant.cut(candidate.fates);
    return {.programs = variant.build(candidate.fates)};
  }
  // Measures finished programs.
  Cost Measure(const std::vector<StepProgram>& step) const {
    const int64_t alignment = options.plan.alignment;
    const StepUse use = MeasureStep(step, /*blocks=*/0, alignment, cost);
    return {Cost::Kind::kExact, use.seconds(),
            use.peak() + PersistentBytes(step, graph::Place::kDevice, alignment), 0};
  }

  const ExactPlan& Exact(Candidate& candidate) {
    if (!candidate.exact) Plan(candidate, MakeOf(candidate));
    return *candidate.exact;
  }

  void Plan(Candidate& candidate, const FinishedStep& step) const {
    std::vector<const graph::Program*> programs;
    ExactPlan exact;
    for (const StepProgram& part : step.programs) {
      programs.push_back(part.program.get());
      if (part.times == 0) continue;
      const std::vector<double> seconds = cost.NodeSeconds(*part.program);
      for (size_t n = 0; n < seconds.size(); ++n) {
        const graph::Node& node = part.program->nodes()[n];
        const double total = static_cast<double>(part.times) * seconds[n];
        exact.seconds += total;
        if (IsForMemory(*part.program, node)) exact.recompute_seconds += total;
      }
    }
    PlanOptions plan_options = options.plan;
    plan_options.order = step.order;
    const MemoryPlan plan = MakePlan(programs, plan_options);
    exact.arena_bytes = plan.arena_bytes;
    exact.taken_bytes = plan.arena_bytes + (options.one_memory ? plan.host_arena_bytes : 0);
    exact.needed_bytes =
        std::max(exact.taken_bytes, static_cast<int64_t>(std::ceil(LeastPeak(candidate))));
    exact.max_live_bytes = plan.max_live_bytes;
    exact.host_arena_bytes = plan.host_arena_bytes;
    exact.host_bytes = plan.host_arena_bytes + variants[candidate.variant].host_input_bytes;
    candidate.exact = exact;
  }

  bool Fits(Candidate& candidate, const Budget& budget) {
    if (LeastPeak(candidate) > static_cast<double>(budget.device)) return false;
    const ExactPlan& exact = Exact(candidate);
    return exact.needed_bytes <= budget.device && exact.host_bytes <= budget.host;
  }

  // Plans the candidates of `some` whose programs need at most `device_bytes` and take at most
  // `seconds`.
  void PlanWithin(std::span<Candidate* const> some, int64_t device_bytes,
                  double seconds = kForever) {
    ParallelEach(*options.pool, some.size(), [&](size_t i) {
      Candidate& candidate = *some[i];
      // If programs are cut, temporaries may share bytes with kept tensors, and the plan takes less
      // than this bound.
      const bool bounded = !variants[candidate.variant].cut;
      const auto hopeless = [&] {
        return candidate.made && ((bounded && candidate.made->device_bytes > device_bytes) ||
                                  candidate.made->seconds > seconds * (1 + kSame));
      };
      if (candidate.exact || hopeless()) return;
      const FinishedStep step = MakeOf(candidate);
      if (!candidate.made) candidate.made = Measure(step.programs);
      if (!hopeless()) Plan(candidate, step);
    });
  }

  // Sets `best` to the variant's fastest candidate within the budget, if that candidate is faster
  // than `best` or, without a `best`, than `seconds`.
  void FindFaster(size_t variant, const Budget& budget, double seconds, const Candidate*& best) {
    std::vector<Candidate>& candidates = CandidatesOf(variant);
    const bool estimated = std::ranges::any_of(candidates, Estimated);
    const double tie = estimated ? kOffloadTie : kSumTie;
    const auto line = [&] { return best == nullptr ? seconds : best->exact->seconds; };
    const auto slower = [&](const Candidate& candidate) {
      return candidate.predicted.seconds > line() * tie;
    };
    auto next = candidates.begin();
    while (next != candidates.end()) {
      std::vector<Candidate*> some;
      for (; next != candidates.end() && some.size() < static_cast<size_t>(options.pool->size());
           ++next) {
        if (slower(*next)) break;
        if (LeastPeak(*next) <= static_cast<double>(budget.device)) some.push_back(&*next);
      }
      if (some.empty()) return;
      PlanWithin(some, budget.device, line());
      for (Candidate* candidate : some) {
        if (slower(*candidate)) return;
        if (!candidate->exact) continue;
        const ExactPlan& exact = *candidate->exact;
        if (exact.needed_bytes > budget.device || exact.host_bytes > budget.host) continue;
        if (best == nullptr || Better(*candidate, *best)) best = candidate;
      }
    }
  }

  const Candidate* Fastest(const Budget& budget, const std::vector<bool>& among,
                           double faster_than) {
    const Candidate* best = nullptr;
    const auto least = [&](const VariantBound& bound) {
      return bound.SecondsWithin(budget.device);
    };
    for (const size_t variant : OrderedBy(least, Within(budget.device, among))) {
      if (least(bounds[variant]) >= (best == nullptr ? faster_than : best->exact->seconds)) break;
      if (budget.Admits(bounds[variant].cost())) FindFaster(variant, budget, faster_than, best);
    }
    return best;
  }

  int64_t LeastDeviceBytes(const std::vector<bool>& among) {
    std::vector<size_t> some;
    for (size_t i = 0; i < variants.size(); ++i) {
      if (among.empty() || among[i]) some.push_back(i);
    }
    std::ranges::stable_sort(some, {},
                             [&](size_t variant) { return variants[variant].least_device_bytes; });
    int64_t least = Budget::kNone;
    for (const size_t variant : some) {
      if (variants[variant].least_device_bytes >= least) break;
      MakeBounds({variant});
      least = std::min(least, bounds[variant].cost().device_bytes);
    }
    return least;
  }

  double LeastSeconds(const Budget& budget) {
    double least = kForever;
    for (const size_t variant : Within(budget.device)) {
      if (!budget.Admits(bounds[variant].cost())) continue;
      least = std::min(least, bounds[variant].SecondsWithin(budget.device));
    }
    return least;
  }

  // The candidate within the host's limit that needs least on the device; nullptr if no candidate
  // is within that limit.
  const Candidate* LeastOnDevice(int64_t host) {
    const Candidate* best = nullptr;
    std::vector<size_t> open(variants.size());
    std::iota(open.begin(), open.end(), 0);
    const auto least = [&](size_t variant) {
      return std::pair(kept[variant] ? bounds[variant].cost().device_bytes
                                     : variants[variant].least_device_bytes,
                       variant);
    };
    while (!open.empty()) {
      std::ranges::sort(open, {}, least);
      const size_t first = open.front();
      if (best != nullptr && least(first).first >= best->exact->needed_bytes) break;
      if (!kept[first]) {
        const size_t some = std::min(open.size(), static_cast<size_t>(options.pool->size()));
        MakeBounds({open.begin(), open.begin() + some});
        continue;
      }
      open.erase(open.begin());
      if (bounds[first].cost().host_bytes <= host) FindSmaller(first, host, best);
    }
    return best;
  }

  // Sets `best` to the variant's candidate that needs least on the device, if it needs less than
  // `best`.
  void FindSmaller(size_t variant, int64_t host, const Candidate*& best) {
    std::vector<Candidate*> order;
    for (Candidate& candidate : CandidatesOf(variant)) order.push_back(&candidate);
    std::stable_sort(order.begin(), order.end(), [](const Candidate* a, const Candidate* b) {
      return LeastPeak(*a) < LeastPeak(*b);
    });
    // No candidate needs less than its LeastPeak, so the search can stop early.
    const auto line = [&] { return best == nullptr ? Budget::kNone : best->exact->needed_bytes; };
    auto next = order.begin();
    while (next != order.end()) {
      std::vector<Candidate*> some;
      for (; next != order.end() && some.size() < static_cast<size_t>(options.pool->size());
           ++next) {
        if (LeastPeak(**next) >= static_cast<double>(line())) break;
        some.push_back(*next);
      }
      if (some.empty()) return;
      PlanWithin(some, line());
      for (Candidate* candidate : some) {
        const bool fits = candidate->exact && candidate->exact->host_bytes <= host;
        if (fits && candidate->exact->needed_bytes < line()) best = candidate;
      }
    }
  }

  // Compares, over all variants, the candidate within the device's limit that offloads least, and
  // returns the one with the smallest host arena; nullptr if no candidate fits.
  const Candidate* LeastOnHost(int64_t device) {
    const Candidate* best = nullptr;
    for (const size_t variant :
         OrderedBy([](const auto& bound) { return bound.cost().host_bytes; }, Within(device))) {
      if (best != nullptr && bounds[variant].cost().host_bytes >= best->exact->host_bytes) break;
      if (bounds[variant].cost().device_bytes > device) continue;
      std::vector<std::pair<int64_t, Candidate*>> order;
      for (Candidate& candidate : CandidatesOf(variant)) {
        order.emplace_back(candidate.predicted.host_bytes, &candidate);
      }
      std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : LeastPeak(*a.second) < LeastPeak(*b.second);
      });
      const auto least = std::ranges::find_if(
          order, [&](const auto& entry) { return Fits(*entry.second, {.device = device}); });
      if (least == order.end()) continue;
      if (best == nullptr || least->second->exact->host_bytes < best->exact->host_bytes) {
        best = least->second;
      }
    }
    return best;
  }
};

Solver::Solver(std::vector<Variant> variants, const CostModel& cost, const SolverOptions& options)
    : impl_(std::make_unique<Impl>(std::move(variants), cost, options)) {}

Solver::~Solver() = default;

size_t Solver::variants() const { return impl_->variants.size(); }

const Variant& Solver::variant(size_t index) { return impl_->Made(index); }

const std::vector<Candidate>& Solver::CandidatesOf(size_t variant) {
  return impl_->CandidatesOf(variant);
}

const ExactPlan& Solver::Exact(size_t variant, size_t index) {
  return impl_->Exact(impl_->CandidatesOf(variant)[index]);
}

size_t Solver::searched() const {
  size_t count = 0;
  for (const auto& candidates : impl_->searched) count += candidates ? candidates->size() : 0;
  return count;
}

int64_t Solver::LeastDeviceBytes(const std::vector<bool>& among) {
  return impl_->LeastDeviceBytes(among);
}

const Candidate* Solver::Fastest(const Budget& budget, const std::vector<bool>& among,
                                 double faster_than) {
  return impl_->Fastest(budget, among, faster_than);
}

double Solver::LeastSeconds(const Budget& budget) { return impl_->LeastSeconds(budget); }

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
    return a->exact->taken_bytes > b->exact->taken_bytes;
  });
  return front;
}

const Candidate* Solver::Policy(size_t variant, const std::string& name) {
  for (Candidate& candidate : impl_->CandidatesOf(variant)) {
    if (candidate.policy != name) continue;
    impl_->Exact(candidate);
    return &candidate;
  }
  return nullptr;
}

}  // namespace plimsoll::memory
