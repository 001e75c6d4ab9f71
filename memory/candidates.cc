#include "memory/candidates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/parallel_each.h"
#include "memory/block_costs.h"
#include "memory/step_use.h"

namespace plimsoll::memory {
namespace {

using graph::Retention;

// Limits on the number of combinations that become candidates, for each option outside the blocks.
// kWithHostTraffic: the limit if copies of parameters overlap with the computation.
constexpr size_t kFront = 320, kWithHostTraffic = 96;

// A combination of options.
struct Combination {
  Fates fates;
  double seconds = 0;  // seconds of a step
  int64_t peak = 0;    // the most bytes of temporaries alive at once
  int side = 0;        // index of the option outside the blocks
};

// The measured seconds and bytes of a program minus the predicted ones.
struct Difference {
  double seconds = 0, bytes = 0;
};

// The combinations that no other combination beats, sorted by seconds.
std::vector<Combination> FrontOf(std::vector<Combination> all) {
  std::ranges::stable_sort(all, [](const Combination& a, const Combination& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.peak < b.peak;
  });
  int64_t least = Budget::kNone;
  std::erase_if(all, [&](const Combination& combination) {
    if (combination.peak >= least) return true;
    least = combination.peak;
    return false;
  });
  return all;
}

// Searches a variant with one base.
class CandidateSearch {
 public:
  CandidateSearch(const Variant& variant, size_t index, const KeptUse& keep, const CostModel& cost,
                  const SolverOptions& options, const BlockShapes* shapes)
      : variant_(variant),
        index_(index),
        keep_(keep),
        cost_(cost),
        options_(options),
        shapes_(shapes),
        blocks_(variant.blocks()) {}

  std::vector<Candidate> Run() {
    if (options_.options == 0 || !HasHostTraffic()) AddPolicies();
    Add(variant_.KeepAll(), keep_);
    if (options_.options == 0) return std::move(candidates_);
    AddCombinations();
    ChangeSingleDecisions(options_.work);
    KeepFront();
    AddChains();
    return std::move(candidates_);
  }

 private:
  using Choice = BlockCosts::Choice;

  // Whether copies of parameters overlap with the computation; then a step's seconds are no sum
  // over blocks.
  bool HasHostTraffic() const { return keep_.copies && cost_.rates().copies_overlap(); }

  StepUse Measure(const Fates& fates) const {
    if (fates == variant_.KeepAll()) return keep_;
    return MeasureStep(variant_.build(fates), blocks_, options_.plan.alignment, cost_);
  }

  void Add(Fates fates, Cost::Kind kind, double seconds, int64_t temporaries) {
    Candidate& candidate = candidates_.emplace_back();
    candidate.variant = index_;
    candidate.predicted = {kind, seconds, keep_.device_bytes + temporaries,
                           variant_.OffloadedBytes(fates)};
    candidate.fates = std::move(fates);
  }
  void Add(const Fates& fates, const StepUse& use) {
    if (!measured_.insert(fates).second) return;
    Add(fates, Cost::Kind::kExact, use.seconds(), use.peak());
  }
  void AddMeasured(const std::vector<Fates>& all) {
    std::vector<StepUse> uses(all.size());
    ParallelEach(*options_.pool, all.size(), [&](size_t i) { uses[i] = Measure(all[i]); });
    for (size_t i = 0; i < all.size(); ++i) Add(all[i], uses[i]);
  }

  // Adds each named policy as a candidate.
  void AddPolicies() {
    std::vector<StepUse> uses(variant_.policies.size());
    ParallelEach(*options_.pool, uses.size(),
                 [&](size_t i) { uses[i] = Measure(variant_.policies[i].second); });
    for (size_t i = 0; i < uses.size(); ++i) {
      const auto& [name, fates] = variant_.policies[i];
      measured_.insert(fates);
      Add(fates, Cost::Kind::kExact, uses[i].seconds(), uses[i].peak());
      candidates_.back().policy = name;
    }
  }

  // Estimates the named policies, if parameters are copied and programs are slow to build. The
  // estimate of memory counts only the kept activations.
  void EstimatePolicies(const BlockCosts& costs) {
    const graph::Program& base = *variant_.bases.front();
    const std::vector<double> node_seconds = cost_.NodeSeconds(base);
    for (const auto& [name, fates] : variant_.policies) {
      const auto measured = std::ranges::find(candidates_, fates, &Candidate::fates);
      if (measured != candidates_.end()) {
        measured->policy = name;
        continue;
      }
      int64_t kept = 0;
      double copying = 0;  // bytes copied in each direction
      for (size_t d = 0; d < fates.size(); ++d) {
        if (fates[d] == Retention::kSave) kept += variant_.decisions[d].bytes;
        if (fates[d] == Retention::kOffload) copying += variant_.decisions[d].copy_seconds;
      }
      const double again = RecomputeSeconds(base, variant_.decisions, fates, node_seconds);
      Add(fates, Cost::Kind::kEstimate,
          std::max(costs.SecondsOf(keep_.micro_steps * again), keep_.micro_steps * copying),
          variant_.copies() * kept);
      candidates_.back().policy = name;
    }
  }

  void AddCombinations() {
    if (shapes_ == nullptr) {
      own_shapes_ = std::make_unique<BlockShapes>(variant_, keep_, cost_, options_);
      shapes_ = own_shapes_.get();
      for (const BlockShapes::Measured& made : shapes_->measured()) Add(made.fates, made.use);
    }
    costs_ = std::make_unique<BlockCosts>(variant_, *shapes_, keep_, cost_, options_);
    for (const BlockShapes::Measured& made : costs_->levels()) Add(made.fates, made.use);
    if (HasHostTraffic()) EstimatePolicies(*costs_);
    sums_ = Combine(Choice::kSums);
    // In a small program every single op counts, and measuring costs little.
    constexpr int64_t kSmall = 40'000;
    if (blocks_ == 0) {
      AddMeasured(Spaced(sums_, Affordable()));
    } else if (static_cast<int64_t>(sums_.size()) * keep_.nodes <= kSmall) {
      std::vector<Fates> all;
      for (const Combination& sum : sums_) all.push_back(sum.fates);
      AddMeasured(all);
    } else {
      // If computation waits for copies, the sums are only estimates.
      for (const Combination& sum : sums_) {
        Add(sum.fates,
            HasHostTraffic() || Offloads(sum.fates) ? Cost::Kind::kEstimate : Cost::Kind::kBound,
            sum.seconds, sum.peak);
      }
    }
    if (!shapes_->any_estimate()) return;
    const std::vector<Combination> estimates = BetterThan(sums_, Combine(Choice::kEstimates));
    if (!HasHostTraffic()) return AddMeasured(Spaced(estimates, Affordable()));
    AddCorrected(estimates);
  }

  // Adds combinations with chains of blocks. They are added last and replace no other candidate, so
  // that every candidate found without chains is also found with them.
  void AddChains() {
    if (HasHostTraffic() || !shapes_->chains().any()) return;
    std::vector<Combination> known;
    for (const Candidate& candidate : candidates_) {
      if (candidate.predicted.kind == Cost::Kind::kEstimate) continue;
      known.push_back(
          {{}, candidate.predicted.seconds, candidate.predicted.device_bytes - keep_.device_bytes});
    }
    constexpr double kWorthwhile = 1.005;  // a smaller gain is not worth measuring
    const std::vector<Combination> chains =
        BetterThan(known, Combine(Choice::kChains), kWorthwhile);
    if (chains.empty()) return;
    std::vector<Candidate> others = candidates_;
    const size_t before = candidates_.size();
    AddMeasured(Spaced(chains, Affordable()));
    AddMeasured(Contested(before));
    ChangeSingleDecisions(options_.work);
    KeepFront();
    std::set<Fates> kept;
    for (const Candidate& candidate : candidates_) kept.insert(candidate.fates);
    for (Candidate& other : others) {
      if (!kept.contains(other.fates)) candidates_.push_back(std::move(other));
    }
  }

  // The combinations of sums_ that must be measured, too, because a measured candidate with an
  // index of at least `first` beats them by less than the error of sums.
  std::vector<Fates> Contested(size_t first) const {
    constexpr double kOff = 1.01;
    std::vector<Combination> contested;
    for (const Combination& sum : sums_) {
      if (measured_.contains(sum.fates)) continue;
      double fastest = std::numeric_limits<double>::infinity();
      for (size_t i = first; i < candidates_.size(); ++i) {
        const Cost& other = candidates_[i].predicted;
        if (other.device_bytes > keep_.device_bytes + sum.peak) continue;
        fastest = std::min(fastest, other.seconds);
      }
      if (fastest <= sum.seconds && sum.seconds < kOff * fastest) contested.push_back(sum);
    }
    const int64_t most = Affordable(/*most=*/static_cast<int64_t>(kFront));
    if (static_cast<int64_t>(contested.size()) > most) return Spaced(contested, most);
    std::vector<Fates> all;
    for (const Combination& sum : contested) all.push_back(sum.fates);
    return all;
  }

  // The combinations of `some` that are faster, by `factor`, than all combinations of `others` with
  // no higher peak.
  static std::vector<Combination> BetterThan(const std::vector<Combination>& others,
                                             std::vector<Combination> some, double factor = 1) {
    std::erase_if(some, [&](const Combination& one) {
      return std::ranges::any_of(others, [&](const Combination& other) {
        return other.peak <= one.peak && other.seconds <= factor * one.seconds;
      });
    });
    return some;
  }

  // The combinations of a front that are measured: several with the side (option outside the
  // blocks) that has the most combinations, in the order of their peaks, then one with each other
  // side.
  struct Sample {
    std::vector<const Combination*> measured;
    size_t of_longest = 0;
  };

  static Sample SampleOf(const std::vector<Combination>& front) {
    std::map<int, std::vector<const Combination*>> by_side;
    for (const Combination& one : front) by_side[one.side].push_back(&one);
    const auto longest = std::ranges::max_element(
        by_side, {}, [](const auto& of_side) { return of_side.second.size(); });
    Sample sample;
    constexpr size_t kMeasured = 7;
    for (size_t i = 0; i < kMeasured; ++i) {
      const Combination* one = longest->second[i * (longest->second.size() - 1) / (kMeasured - 1)];
      if (sample.measured.empty() || sample.measured.back() != one) sample.measured.push_back(one);
    }
    sample.of_longest = sample.measured.size();
    for (const auto& [side, row] : by_side) {
      if (side != longest->first) sample.measured.push_back(row[row.size() / 2]);
    }
    return sample;
  }

  // Adds a front whose sums are corrected. Copies of activations and of parameters share the link,
  // which a sum over blocks does not show. So some combinations are measured, and those between
  // them are corrected by the interpolated difference. The options outside the blocks add about the
  // same to all combinations, so one measured combination is enough for each other side.
  void AddCorrected(const std::vector<Combination>& front) {
    if (front.empty()) return;
    const Sample sample = SampleOf(front);
    std::vector<StepUse> uses(sample.measured.size());
    ParallelEach(*options_.pool, uses.size(),
                 [&](size_t i) { uses[i] = Measure(sample.measured[i]->fates); });
    std::map<int64_t, Difference>
        known;  // maps a peak to the difference, for the side with the most combinations
    std::map<int, Difference> beside;  // maps a side to the difference in addition to `known`
    for (size_t i = 0; i < uses.size(); ++i) {
      const Combination& one = *sample.measured[i];
      const Difference off = {uses[i].seconds() - one.seconds,
                              static_cast<double>(uses[i].peak() - one.peak)};
      if (i < sample.of_longest) {
        known[one.peak] = off;
      } else {
        const Difference there = Between(known, one.peak);
        beside[one.side] = {off.seconds - there.seconds, off.bytes - there.bytes};
      }
      Add(one.fates, uses[i]);
    }
    for (const Combination& one : front) {
      if (measured_.contains(one.fates)) continue;
      const Difference off = Between(known, one.peak), own = beside[one.side];
      Add(one.fates, Cost::Kind::kEstimate, one.seconds + off.seconds + own.seconds,
          one.peak + static_cast<int64_t>(off.bytes + own.bytes));
    }
  }

  // Interpolates between the two nearest known peaks.
  static Difference Between(const std::map<int64_t, Difference>& known, int64_t peak) {
    const auto above = known.lower_bound(peak);
    if (above == known.end()) return known.rbegin()->second;
    if (above == known.begin()) return above->second;
    const auto& [to, high] = *above;
    const auto& [from, low] = *std::prev(above);
    const double part = static_cast<double>(peak - from) / static_cast<double>(to - from);
    return {std::lerp(low.seconds, high.seconds, part), std::lerp(low.bytes, high.bytes, part)};
  }

  std::vector<Combination> Combine(Choice choice) const {
    std::vector<std::vector<Combination>> by_side(shapes_->sides().size());
    ParallelEach(*options_.pool, by_side.size(), [&](size_t i) {
      const int side = static_cast<int>(i);
      const bool sums = choice != Choice::kEstimates;
      if (sums && shapes_->sides()[i].option.IsEstimate()) return;
      if (blocks_ == 0) {
        by_side[i].push_back({shapes_->FatesOf(side, {}),
                              costs_->SecondsOf(shapes_->sides()[i].seconds),
                              keep_.peak() + shapes_->sides()[i].extra[0][0], side});
        return;
      }
      for (const OptionPoint& point : FrontOfOptions(
               costs_->Problem(side, choice), HasHostTraffic() ? kWithHostTraffic : kFront)) {
        if (!costs_->Needs(choice, side, point.options)) continue;
        by_side[i].push_back({shapes_->FatesOf(side, point.options),
                              costs_->SecondsOf(shapes_->sides()[i].seconds + point.seconds),
                              point.peak, side});
      }
    });
    std::vector<Combination> all;
    for (std::vector<Combination>& of_side : by_side)
      std::ranges::move(of_side, std::back_inserter(all));
    return FrontOf(std::move(all));
  }

  // How many combinations can be measured within a bound of work. A program of several micro-steps
  // is joined from programs of one micro-step.
  int64_t Affordable(int64_t most = 144) const {
    constexpr int64_t kNodes = 400'000, kLeast = 12, kJoined = 3;
    const int64_t nodes =
        std::max<int64_t>(1, keep_.nodes) * (variant_.micro_steps > 1 ? kJoined : 1);
    return std::clamp(kNodes / nodes, kLeast, most);
  }

  // The fastest combination within each of `spaces` evenly spaced peaks, if that combination was
  // not measured yet.
  std::vector<Fates> Spaced(const std::vector<Combination>& front, int64_t spaces) const {
    std::vector<Fates> chosen;
    if (front.empty()) return chosen;
    const int64_t most = front.front().peak, least = front.back().peak;
    auto fastest = front.begin();
    for (int64_t space = spaces; space >= 0; --space) {
      const int64_t line = least + (most - least) * space / spaces;
      while (fastest->peak > line) ++fastest;
      const bool known = measured_.contains(fastest->fates) ||
                         (!chosen.empty() && chosen.back() == fastest->fates);
      if (!known) chosen.push_back(fastest->fates);
    }
    return chosen;
  }

  // Changes single decisions of candidates that are evenly spaced on the front, as long as `work`
  // allows. This pays for small programs, in which one tensor is a large part of all memory.
  void ChangeSingleDecisions(int64_t work) {
    const int64_t decisions = static_cast<int64_t>(variant_.decisions.size());
    int64_t trials = work / std::max<int64_t>(1, keep_.nodes);
    constexpr int64_t kWorthwhile = 8;
    while (trials >= kWorthwhile * (decisions + 1)) {
      KeepFront();
      const std::vector<Candidate> front = candidates_;
      const int64_t before = trials;
      const int64_t takes = std::min<int64_t>(front.size(), trials / (2 * (decisions + 1)));
      for (int64_t take = 0; take < takes; ++take) {
        const size_t at = takes == 1 ? 0 : take * (front.size() - 1) / (takes - 1);
        for (int64_t d = 0; d < decisions; ++d) {
          for (Retention fate : {Retention::kSave, Retention::kRecompute, Retention::kOffload}) {
            if (!variant_.decisions[d].Allows(fate)) continue;
            Fates fates = front[at].fates;
            fates[d] = fate;
            if (measured_.contains(fates)) continue;
            Add(fates, Measure(fates));
            --trials;
          }
        }
      }
      if (trials == before) return;  // no change led to a new candidate
    }
  }

  // Drops candidates that another candidate beats in seconds and peak without using more of the
  // host.
  void KeepFront() {
    std::ranges::stable_sort(candidates_, [](const Candidate& a, const Candidate& b) {
      const Cost &x = a.predicted, &y = b.predicted;
      return x.seconds != y.seconds ? x.seconds < y.seconds : x.device_bytes < y.device_bytes;
    });
    // Maps host bytes to the lowest peak so far of candidates that use at most these bytes. The
    // peaks fall as host bytes rise.
    std::map<int64_t, int64_t> lowest;
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      // Keeps estimated policies: EstimatePolicies counts too little of their memory for a
      // comparison.
      if (!candidate.policy.empty() && candidate.predicted.kind == Cost::Kind::kEstimate) {
        return false;
      }
      const int64_t host = candidate.predicted.host_bytes, peak = candidate.predicted.device_bytes;
      const auto more = lowest.upper_bound(host);
      if (more != lowest.begin() && std::prev(more)->second <= peak) {
        // Estimates by AddCorrected are too rough to drop candidates that it measured, or may
        // measure.
        const bool rough = HasHostTraffic() && Offloads(candidate.fates);
        return candidate.policy.empty() && !rough;
      }
      auto behind = lowest.lower_bound(host);
      while (behind != lowest.end() && behind->second >= peak) behind = lowest.erase(behind);
      lowest.emplace_hint(behind, host, peak);
      return false;
    });
  }

  const Variant& variant_;
  size_t index_;
  const KeptUse& keep_;
  const CostModel& cost_;
  const SolverOptions& options_;
  const BlockShapes* shapes_;
  const int blocks_;
  std::unique_ptr<BlockShapes> own_shapes_;  // used if the caller passes no shapes
  std::unique_ptr<BlockCosts> costs_;
  std::vector<Combination> sums_;
  std::vector<Candidate> candidates_;
  std::set<Fates> measured_;  // includes fates that are no longer candidates
};

// Searches a variant with several bases: first each base separately, then all together.
class ObjectivesSearch {
 public:
  ObjectivesSearch(const Variant& variant, size_t index, const KeptUse& keep, const CostModel& cost,
                   const SolverOptions& options)
      : variant_(variant), index_(index), persistent_bytes_(keep.device_bytes) {
    for (size_t base = 0; base < variant.bases.size(); ++base) {
      const Variant alone = Alone(static_cast<int>(base));
      const KeptUse kept = MeasureKept(alone, options.plan.alignment, cost);
      Front& front = fronts_.emplace_back(FindCandidates(alone, index, kept, cost, options));
      for (Candidate& candidate : front) candidate.predicted.device_bytes -= kept.device_bytes;
    }
  }

  std::vector<Candidate> Run() {
    for (const auto& [name, fates] : variant_.policies) AddPolicy(name);
    std::set<int64_t> peaks;
    for (const Front& front : fronts_) {
      for (const Candidate& candidate : front) peaks.insert(candidate.predicted.device_bytes);
    }
    for (const bool offload : {false, true}) {
      for (const int64_t peak : peaks) AddWithin(peak, offload);
    }
    return std::move(candidates_);
  }

 private:
  // The candidates of one base; their peaks count only temporaries.
  using Front = std::vector<Candidate>;

  // The variant with only this base: programs of other bases are left out, and their decisions are
  // kSave.
  Variant Alone(int base) {
    Variant alone;
    alone.bases = {variant_.bases[base]};
    alone.micro_steps = variant_.micro_steps;
    std::vector<int> own;
    for (size_t d = 0; d < variant_.decisions.size(); ++d) {
      if (variant_.decisions[d].base != base) continue;
      own.push_back(static_cast<int>(d));
      alone.decisions.push_back(variant_.decisions[d]);
    }
    for (const auto& [name, fates] : variant_.policies) {
      Fates part;
      for (const int d : own) part.push_back(fates[d]);
      alone.policies.emplace_back(name, std::move(part));
    }
    alone.build = [this, own, base](const Fates& fates) {
      Fates whole = variant_.KeepAll();
      for (size_t i = 0; i < own.size(); ++i) whole[own[i]] = fates[i];
      std::vector<StepProgram> step = (variant_.apart ? variant_.apart : variant_.build)(whole);
      std::erase_if(step,
                    [&](const StepProgram& part) { return part.times > 0 && part.base != base; });
      return step;
    };
    own_.push_back(std::move(own));
    return alone;
  }

  // Adds the combination of each base's fastest candidate within `peak`, if all bases have one.
  void AddWithin(int64_t peak, bool offload) {
    std::vector<const Candidate*> chosen;
    for (const Front& front : fronts_) {
      const Candidate* fastest = nullptr;
      for (const Candidate& candidate : front) {
        if (candidate.predicted.device_bytes > peak || (!offload && Offloads(candidate.fates))) {
          continue;
        }
        if (fastest == nullptr || candidate.predicted.seconds < fastest->predicted.seconds) {
          fastest = &candidate;
        }
      }
      if (fastest == nullptr) return;
      chosen.push_back(fastest);
    }
    Add(chosen, "");
  }

  void AddPolicy(const std::string& name) {
    std::vector<const Candidate*> chosen;
    for (const Front& front : fronts_) {
      const auto named = std::ranges::find(front, name, &Candidate::policy);
      if (named == front.end()) return;
      chosen.push_back(&*named);
    }
    Add(chosen, name);
  }

  void Add(const std::vector<const Candidate*>& chosen, const std::string& policy) {
    Candidate together;
    together.variant = index_;
    together.policy = policy;
    together.fates = variant_.KeepAll();
    together.predicted.kind = Cost::Kind::kExact;
    for (size_t base = 0; base < chosen.size(); ++base) {
      for (size_t i = 0; i < own_[base].size(); ++i) {
        together.fates[own_[base][i]] = chosen[base]->fates[i];
      }
      const Cost& part = chosen[base]->predicted;
      Cost& whole = together.predicted;
      whole.kind = std::min(whole.kind, part.kind);
      whole.seconds += part.seconds;
      whole.device_bytes = std::max(whole.device_bytes, part.device_bytes);
      whole.host_bytes += part.host_bytes;
    }
    together.predicted.device_bytes += persistent_bytes_;
    if (known_.insert(together.fates).second) candidates_.push_back(std::move(together));
  }

  const Variant& variant_;
  size_t index_;
  int64_t persistent_bytes_;
  std::vector<std::vector<int>>
      own_;  // by base: its decisions, as indices into the variant's decisions
  std::vector<Front> fronts_;
  std::vector<Candidate> candidates_;
  std::set<Fates> known_;
};

}  // namespace

std::vector<Candidate> FindCandidates(const Variant& variant, size_t index, const KeptUse& keep,
                                      const CostModel& cost, const SolverOptions& options,
                                      const BlockShapes* shapes) {
  if (variant.bases.size() > 1) {
    return ObjectivesSearch(variant, index, keep, cost, options).Run();
  }
  return CandidateSearch(variant, index, keep, cost, options, shapes).Run();
}

}  // namespace plimsoll::memory
