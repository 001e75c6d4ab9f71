#include "memory/variant_search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/function_ref.h"
#include "base/parallel_each.h"
#include "memory/block_options.h"
#include "memory/decision_groups.h"
#include "memory/measured_step.h"
#include "memory/mixtures.h"
#include "memory/spread_mixtures.h"

namespace plimsoll::memory {
namespace {

using graph::Retention;

// Searches a variant with one base.
class VariantSearch {
 public:
  VariantSearch(const Variant& variant, size_t index, const CostModel& cost,
                const SolverOptions& options)
      : variant_(variant),
        index_(index),
        cost_(cost),
        options_(options),
        groups_(GroupDecisions(variant)),
        blocks_(groups_.blocks()) {
    node_seconds_ = cost.NodeSeconds(base());
    const std::vector<StepProgram> keep = variant.realize(KeepAll(variant));
    persistent_bytes_ = PersistentBytes(keep, graph::Place::kDevice, options.plan.alignment);
    keep_ = MeasureStep(keep, blocks_, options.plan.alignment, cost);
    measured_.emplace(KeepAll(variant), keep_);
  }

  std::vector<Candidate> Run() {
    std::vector<MeasuredStep> policies(variant_.policies.size());
    ParallelEach(policies.size(),
                 [&](size_t i) { policies[i] = Measure(variant_.policies[i].second); });
    for (size_t i = 0; i < policies.size(); ++i) {
      AddMeasured(variant_.policies[i].second, policies[i], variant_.policies[i].first);
    }
    AddMeasured(KeepAll(variant_), keep_, "");
    if (options_.options == 0) return std::move(candidates_);
    const bool offload = std::ranges::any_of(variant_.decisions, &Decision::offload);
    if (offload && !cost_.rates().copies_overlap()) AddMixtures(PartsOf(/*offload=*/true));
    MixtureParts parts = PartsOf(/*offload=*/false);
    MixtureFront plain = AddMixtures(parts);
    if (offload && cost_.rates().copies_overlap()) AddSpread(parts, std::move(plain));
    ChangeSingleDecisions();
    KeepFront();
    return std::move(candidates_);
  }

 private:
  const graph::Program& base() const { return *variant_.bases.front(); }

  // Whether parameters travel beside the computation.
  bool Travels() const { return keep_.copies && cost_.rates().copies_overlap(); }

  void ParallelEach(size_t n, FunctionRef<void(size_t)> body) const {
    plimsoll::ParallelEach(*options_.pool, n, body);
  }

  MeasuredStep Measure(const Assignment& assignment) const {
    const auto known = measured_.find(assignment);
    if (known != measured_.end()) return known->second;
    return MeasureStep(variant_.realize(assignment), blocks_, options_.plan.alignment, cost_);
  }

  Candidate& Add(Assignment assignment, double seconds, int64_t temporaries) {
    Candidate candidate;
    candidate.variant = index_;
    candidate.assignment = std::move(assignment);
    candidate.seconds = seconds;
    candidate.peak_bytes = persistent_bytes_ + temporaries;
    return candidates_.emplace_back(std::move(candidate));
  }
  void AddMeasured(const Assignment& assignment, const MeasuredStep& measured,
                   const std::string& policy) {
    measured_.emplace(assignment, measured);
    Candidate& candidate = Add(assignment, measured.seconds(), measured.peak());
    candidate.policy = policy;
    candidate.measured = true;
  }

  void Apply(const std::vector<int>& segment, const BlockOption& option,
             Assignment& assignment) const {
    for (size_t i = 0; i < segment.size(); ++i) {
      assignment[segment[i]] = option.retentions[i];
    }
  }

  // The forward pass of one micro-step. A step's first program is one that trains.
  double ForwardSeconds(int block) const {
    return keep_.uses[0].seconds[ForwardRegion(block)] / static_cast<double>(variant_.micro_steps);
  }

  // `offload`: options may copy to the host; so many seconds of it are hidden.
  std::vector<BlockOption> Options(const std::vector<int>& segment, bool offload, int count,
                                   double hidden_seconds = 0) const {
    std::vector<Decision> decisions = variant_.decisions;
    for (Decision& decision : decisions) decision.offload = decision.offload && offload;
    return FindBlockOptions(base(), decisions, segment, node_seconds_,
                            {.options = count, .hidden_seconds = hidden_seconds});
  }

  MixtureParts PartsOf(bool offload) const {
    MixtureParts parts;
    parts.blocks = blocks_;
    parts.seconds = keep_.seconds();
    // In a deep model a block is a small part of the step, and every option a long program; so it
    // is where a program holds several micro-steps, which are tried with few.
    constexpr int kBlocks = 128, kLeast = 4, kJoined = 8;
    const int64_t most =
        variant_.micro_steps > 1 ? std::min(options_.options, kJoined) : options_.options;
    const int64_t length = std::max<int64_t>(1, blocks_ * variant_.micro_steps);
    const int options =
        static_cast<int>(std::min(most, std::max<int64_t>(kLeast, most * kBlocks / length)));
    parts.by_kind = OptionsByKind(offload, options);
    parts.levels = blocks_ > 0 ? Levels(parts.by_kind) : std::vector<Level>{{}};
    parts.profiles.resize(parts.levels.size());
    ParallelEach(parts.levels.size(), [&](size_t i) {
      Assignment assignment = KeepAll(variant_);
      for (int block = 0; block < blocks_; ++block) {
        Apply(groups_.segments[block], *parts.levels[i][groups_.kinds[block]], assignment);
      }
      parts.profiles[i] = Profile(Measure(assignment), parts.levels[i]);
    });
    AddSides(Options(groups_.segments[blocks_], offload, SideOptions()), parts);
    return parts;
  }

  std::vector<std::vector<BlockOption>> OptionsByKind(bool offload, int count,
                                                      double blocks_hidden = 0) const {
    std::vector<std::vector<BlockOption>> by_kind;
    for (int block = 0; block < blocks_; ++block) {
      if (groups_.kinds[block] != static_cast<int>(by_kind.size())) continue;
      by_kind.push_back(
          Options(groups_.segments[block], offload, count, blocks_hidden * ForwardSeconds(block)));
    }
    return by_kind;
  }

  // How many options there are outside the blocks.
  int SideOptions() const {
    constexpr int kSides = 4;
    return blocks_ > 0 ? kSides : 4 * options_.options;
  }

  void AddSides(std::vector<BlockOption> sides, MixtureParts& parts) const {
    std::vector<MeasuredStep> measured(sides.size());
    ParallelEach(sides.size(), [&](size_t i) {
      Assignment assignment = KeepAll(variant_);
      Apply(groups_.segments[blocks_], sides[i], assignment);
      measured[i] = Measure(assignment);
    });
    for (size_t i = 0; i < sides.size(); ++i) {
      parts.extra.push_back(Difference(measured[i]));
      parts.side_seconds.push_back(measured[i].seconds() - keep_.seconds());
      parts.sides.push_back(std::move(sides[i]));
    }
  }

  Assignment AssignmentOf(const Mixture& mixture, const MixtureParts& parts) const {
    Assignment assignment = KeepAll(variant_);
    Apply(groups_.segments[blocks_], parts.sides[mixture.side], assignment);
    for (int block = 0; block < blocks_; ++block) {
      const Level& level = InSpread(block, mixture.spread.count, blocks_)
                               ? *mixture.spread.level
                               : parts.levels[mixture.LevelOf(block, blocks_)];
      Apply(groups_.segments[block], *level[groups_.kinds[block]], assignment);
    }
    return assignment;
  }

  // Where parameters travel beside the computation, seconds are no sum over blocks.
  MixtureFront AddMixtures(const MixtureParts& parts) {
    MixtureFront front;
    AddPlainMixtures(parts, 0, *options_.pool, front);
    if (Travels()) {
      AddMeasured(front, parts, {});
      return front;
    }
    for (const auto& [seconds, mixture] : front) {
      Add(AssignmentOf(mixture, parts), seconds, mixture.peak);
    }
    return front;
  }

  // One of several rounds of measurements, each with its part of the work.
  struct Round {
    int index = 0, count = 1;
  };

  // Adds the fastest mixtures within evenly spaced peaks, with the seconds and peaks of their
  // programs: as many as a bound of work allows. Another round takes peaks between those of others.
  std::vector<SpreadMixtures::Taken> AddMeasured(const MixtureFront& front,
                                                 const MixtureParts& parts, Round round) {
    // A program of several micro-steps is made of programs of one. Where parameters travel there
    // are many variants.
    constexpr int64_t kNodes = 400'000, kLeast = 12, kMost = 144, kJoined = 3, kTravelling = 4;
    if (front.empty()) return {};
    const int64_t nodes = std::max<int64_t>(1, keep_.nodes) *
                          (variant_.micro_steps > 1 ? kJoined : 1) * (Travels() ? kTravelling : 1);
    const int64_t spaces = std::clamp(kNodes / nodes, kLeast, kMost);
    // By seconds: the first has the highest peak.
    const int64_t most = front.begin()->second.peak, least = front.rbegin()->second.peak;
    std::map<Assignment, MixtureFront::const_iterator> chosen;
    auto fastest = front.begin();
    for (int64_t space = spaces - round.index; space >= 0; space -= round.count) {
      const int64_t line = least + (most - least) * space / spaces;
      while (fastest->second.peak > line) ++fastest;
      Assignment assignment = AssignmentOf(fastest->second, parts);
      if (!measured_.contains(assignment)) chosen.emplace(std::move(assignment), fastest);
    }
    const std::vector<std::pair<Assignment, MixtureFront::const_iterator>> order(chosen.begin(),
                                                                                 chosen.end());
    std::vector<MeasuredStep> measured(order.size());
    ParallelEach(order.size(), [&](size_t i) { measured[i] = Measure(order[i].first); });
    std::vector<SpreadMixtures::Taken> taken;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& [seconds, mixture] = *order[i].second;
      taken.push_back({mixture, seconds, measured[i].seconds(), measured[i].peak()});
      AddMeasured(order[i].first, measured[i], "");
    }
    return taken;
  }

  // Mixtures with copies that run beside the computation. Which of them are worth measuring is
  // estimated from the mixtures without: `plain`, and those with other sides.
  void AddSpread(MixtureParts& parts, MixtureFront plain) {
    std::vector<BlockOption> sides =
        Options(groups_.segments[blocks_], /*offload=*/true, SideOptions());
    std::erase_if(sides, [](const BlockOption& side) { return !Offloads(side.retentions); });
    const int known_sides = static_cast<int>(parts.sides.size());
    AddSides(std::move(sides), parts);
    AddPlainMixtures(parts, known_sides, *options_.pool, plain);
    // The blocks whose work hides the copies of one: with infinity, all waits for copies.
    constexpr double kHidden[] = {1, 2, 3, 4, 6, 8, std::numeric_limits<double>::infinity()};
    constexpr int kOptions = 6;
    std::vector<std::vector<std::vector<BlockOption>>> options(std::size(kHidden));
    ParallelEach(options.size(), [&](size_t i) {
      options[i] = OptionsByKind(/*offload=*/true, kOptions, kHidden[i]);
    });
    std::vector<Level> levels;
    std::set<Assignment> known;
    for (const auto& by_kind : options) {
      if (by_kind.empty()) continue;
      for (const Level& level : Levels(by_kind)) {
        Assignment retentions;
        for (const BlockOption* option : level)
          std::ranges::copy(option->retentions, std::back_inserter(retentions));
        if (Offloads(retentions) && known.insert(std::move(retentions)).second)
          levels.push_back(level);
      }
    }
    SpreadMixtures mixtures(parts,
                            {.levels = std::move(levels),
                             .kinds = groups_.kinds,
                             .times = Times(),
                             .program_micro_steps = variant_.micro_steps,
                             .step_micro_steps = MicroSteps()},
                            std::move(plain), *options_.pool);
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds; ++round) {
      mixtures.Correct(AddMeasured(mixtures.Front(), parts, {round, kRounds}));
    }
  }

  // Of a whole step.
  int64_t MicroSteps() const {
    return std::reduce(keep_.times.begin(), keep_.times.end()) * variant_.micro_steps;
  }

  BlockTimes Times() const {
    const std::vector<double>& seconds = keep_.uses[0].seconds;
    BlockTimes times;
    for (int block = 0; block < blocks_; ++block) {
      times.forward.push_back(seconds[ForwardRegion(block)]);
      times.backward.push_back(seconds[BackwardRegion(blocks_, block)]);
    }
    times.head = seconds[HeadRegion(blocks_)];
    for (auto* part : {&times.forward, &times.backward}) {
      for (double& time : *part) time /= static_cast<double>(variant_.micro_steps);
    }
    times.head /= static_cast<double>(variant_.micro_steps);
    return times;
  }

  UniformProfile Profile(const MeasuredStep& measured, const Level& level) const {
    UniformProfile profile;
    profile.kept_before = {0};
    for (const RegionUse& use : measured.uses) profile.peaks.push_back(use.peaks);
    for (int block = 0; block < blocks_; ++block) {
      profile.kept_before.push_back(profile.kept_before.back() +
                                    variant_.micro_steps * level[groups_.kinds[block]]->kept_bytes);
      double seconds = 0;
      for (int region : {ForwardRegion(block), BackwardRegion(blocks_, block)}) {
        seconds += measured.seconds(region) - keep_.seconds(region);
      }
      profile.seconds.push_back(seconds);
    }
    return profile;
  }

  // The bytes by program and region, minus those when everything is kept.
  std::vector<std::vector<int64_t>> Difference(const MeasuredStep& measured) const {
    std::vector<std::vector<int64_t>> difference;
    for (size_t p = 0; p < measured.uses.size(); ++p) {
      difference.emplace_back();
      for (size_t r = 0; r < measured.uses[p].peaks.size(); ++r) {
        difference.back().push_back(measured.uses[p].peaks[r] - keep_.uses[p].peaks[r]);
      }
    }
    return difference;
  }

  // While `work` allows: takes candidates evenly spaced on the front and changes each of their
  // decisions. This pays for small programs, in which one tensor is a large part of the whole.
  void ChangeSingleDecisions() {
    const int64_t decisions = static_cast<int64_t>(variant_.decisions.size());
    int64_t trials = options_.work / std::max<int64_t>(1, keep_.nodes);
    constexpr int64_t kWorthwhile = 8;
    while (trials >= kWorthwhile * (decisions + 1)) {
      KeepFront();
      const std::vector<Candidate> front = candidates_;
      const int64_t before = trials;
      const int64_t takes = std::min<int64_t>(front.size(), trials / (2 * (decisions + 1)));
      for (int64_t take = 0; take < takes; ++take) {
        const size_t at = takes == 1 ? 0 : take * (front.size() - 1) / (takes - 1);
        for (int64_t d = 0; d < decisions; ++d) {
          for (Retention retention :
               {Retention::kSave, Retention::kRecompute, Retention::kOffload}) {
            if (!Allowed(variant_.decisions[d], retention)) continue;
            Assignment assignment = front[at].assignment;
            assignment[d] = retention;
            if (measured_.contains(assignment)) continue;
            AddMeasured(assignment, Measure(assignment), "");
            --trials;
          }
        }
      }
      if (trials == before) return;  // nothing new
    }
  }

  static bool Allowed(const Decision& decision, Retention retention) {
    if (retention == Retention::kRecompute) return decision.recompute;
    return retention == Retention::kSave || decision.offload;
  }

  // Drops candidates that another beats in seconds and peak without using the host more.
  void KeepFront() {
    std::stable_sort(
        candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
          return a.seconds != b.seconds ? a.seconds < b.seconds : a.peak_bytes < b.peak_bytes;
        });
    // Host bytes → the lowest peak so far of those that use as many or fewer: falling.
    std::map<int64_t, int64_t> lowest;
    std::vector<Candidate> front;
    for (Candidate& candidate : candidates_) {
      const int64_t host = OffloadedBytes(variant_, candidate.assignment);
      const auto more = lowest.upper_bound(host);
      const bool beaten = more != lowest.begin() && std::prev(more)->second <= candidate.peak_bytes;
      if (candidate.policy.empty() && beaten) continue;
      if (!beaten) {
        auto behind = lowest.lower_bound(host);
        while (behind != lowest.end() && behind->second >= candidate.peak_bytes) {
          behind = lowest.erase(behind);
        }
        lowest.emplace_hint(behind, host, candidate.peak_bytes);
      }
      front.push_back(std::move(candidate));
    }
    candidates_ = std::move(front);
  }

  const Variant& variant_;
  size_t index_;
  const CostModel& cost_;
  const SolverOptions& options_;
  const DecisionGroups groups_;
  const int blocks_;
  std::vector<double> node_seconds_;  // of the base program
  int64_t persistent_bytes_ = 0;
  MeasuredStep keep_;  // with everything kept
  std::vector<Candidate> candidates_;
  std::map<Assignment, MeasuredStep> measured_;  // whether still candidates or not
};

}  // namespace

std::vector<Candidate> SearchVariant(const Variant& variant, size_t index, const CostModel& cost,
                                     const SolverOptions& options) {
  return VariantSearch(variant, index, cost, options).Run();
}

}  // namespace plimsoll::memory
