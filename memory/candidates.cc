#include "memory/candidates.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "base/function_ref.h"
#include "base/parallel_each.h"
#include "memory/block_profile.h"
#include "memory/objectives_search.h"

namespace plimsoll::memory {
namespace {

using graph::Retention;

// What a step with given decisions takes, by region of its programs.
struct Measured {
  std::vector<RegionUse> uses;  // by program
  std::vector<int64_t> times;
  int64_t nodes = 0;
  bool copies = false;  // to the host, or back

  int64_t peak() const {  // of temporaries
    int64_t peak = 0;
    for (const RegionUse& use : uses) {
      peak = std::max(peak, *std::max_element(use.peaks.begin(), use.peaks.end()));
    }
    return peak;
  }
  double seconds(int region) const {
    double total = 0;
    for (size_t p = 0; p < uses.size(); ++p) {
      total += static_cast<double>(times[p]) * uses[p].seconds[region];
    }
    return total;
  }
  double seconds() const {
    double total = 0;
    for (size_t r = 0; r < uses.front().seconds.size(); ++r) total += seconds(static_cast<int>(r));
    return total;
  }
};

// One option for each kind of block.
using Level = std::vector<const BlockOption*>;

// A mixture of levels, and the option `side` outside the blocks.
struct Mixture {
  Mix mix;
  int side = 0;
  int64_t peak = 0;

  int LevelOf(int block, int blocks) const {
    if (block < mix.split) return mix.low;
    if (block == blocks - 1) return mix.last;
    return block == mix.split ? mix.odd : mix.high;
  }
};

// By seconds; each has a lower peak than all faster ones.
using MixtureFront = std::map<double, Mixture>;

void AddToFront(MixtureFront& front, double seconds, const Mixture& mixture) {
  auto next = front.upper_bound(seconds);
  if (next != front.begin() && std::prev(next)->second.peak <= mixture.peak) return;
  if (next != front.begin() && std::prev(next)->first == seconds) --next;
  while (next != front.end() && next->second.peak >= mixture.peak) next = front.erase(next);
  front.emplace_hint(next, seconds, mixture);
}

Assignment KeepAll(const Variant& variant) {
  return Assignment(variant.decisions.size(), Retention::kSave);
}

// Of all programs, which share them by name.
int64_t PersistentBytes(const std::vector<StepProgram>& step, graph::Place place,
                        int64_t alignment) {
  std::set<std::string_view> counted;
  int64_t bytes = 0;
  for (const StepProgram& part : step) {
    for (const graph::Tensor& tensor : part.program->tensors()) {
      const bool own = tensor.persistent && !tensor.alias && tensor.place == place;
      if (!own || !counted.insert(tensor.name).second) continue;
      bytes += (tensor.bytes() + alignment - 1) / alignment * alignment;
    }
  }
  return bytes;
}

// To keep everything is the fastest, or nearly so: a norm that is computed again within the kernel
// of its gradient, or a copy that has more to hide behind, may be worth a little.
constexpr double kFasterThanKeeping = 0.005;

// Searches a variant with one base.
class VariantSearch {
 public:
  VariantSearch(const Variant& variant, size_t index, const CostModel& cost,
                const SolverOptions& options)
      : variant_(variant), index_(index), cost_(cost), options_(options) {
    for (const Decision& decision : variant.decisions) {
      blocks_ = std::max(blocks_, decision.block + 1);
    }
    node_seconds_ = cost.NodeSeconds(base());
    const std::vector<StepProgram> keep = variant.realize(KeepAll(variant));
    persistent_bytes_ = PersistentBytes(keep, graph::Place::kDevice, options.plan.alignment);
    keep_ = Measure(keep);
  }

  std::vector<Candidate> Run() {
    std::vector<Measured> policies(variant_.policies.size());
    ParallelEach(policies.size(),
                 [&](size_t i) { policies[i] = Measure(variant_.policies[i].second); });
    for (size_t i = 0; i < policies.size(); ++i) {
      AddMeasured(variant_.policies[i].second, policies[i], variant_.policies[i].first);
    }
    AddMeasured(KeepAll(variant_), keep_, "");
    if (options_.options == 0) return std::move(candidates_);
    const bool offload = std::any_of(variant_.decisions.begin(), variant_.decisions.end(),
                                     [](const Decision& decision) { return decision.offload; });
    AddMixtures(Copies::kNone);
    if (offload) AddMixtures(Copies::kInLine);
    if (offload && cost_.rates().copies_overlap()) AddMixtures(Copies::kHidden);
    ChangeSingleDecisions();
    KeepFront();
    if (Travels()) MeasureFront();
    return std::move(candidates_);
  }

 private:
  const graph::Program& base() const { return *variant_.bases.front(); }

  // Whether parameters travel beside the computation.
  bool Travels() const { return keep_.copies && cost_.rates().copies_overlap(); }

  void ParallelEach(size_t n, FunctionRef<void(size_t)> body) const {
    plimsoll::ParallelEach(*options_.pool, n, body);
  }

  Measured Measure(const Assignment& assignment) const {
    return Measure(variant_.realize(assignment));
  }

  Measured Measure(const std::vector<StepProgram>& step) const {
    Measured measured;
    for (const StepProgram& part : step) {
      const graph::Program& program = *part.program;
      const std::vector<double> seconds = part.times > 0
                                              ? cost_.NodeSeconds(program)
                                              : std::vector<double>(program.nodes().size(), 0.0);
      measured.uses.push_back(MeasureRegions(program, blocks_, options_.plan.alignment, seconds));
      measured.times.push_back(part.times);
      measured.nodes += static_cast<int64_t>(program.nodes().size());
      measured.copies =
          measured.copies || std::ranges::any_of(program.nodes(), [](const graph::Node& node) {
            return node.op->transfer == graph::Transfer::kCopyStart;
          });
    }
    return measured;
  }

  void Add(Assignment assignment, double seconds, int64_t temporaries, const std::string& policy) {
    Candidate candidate;
    candidate.variant = index_;
    candidate.policy = policy;
    candidate.assignment = std::move(assignment);
    candidate.seconds = seconds;
    candidate.peak_bytes = persistent_bytes_ + temporaries;
    candidates_.push_back(std::move(candidate));
  }
  void AddMeasured(const Assignment& assignment, const Measured& measured,
                   const std::string& policy) {
    measured_.insert(assignment);
    Add(assignment, measured.seconds(), measured.peak(), policy);
  }

  // The decisions of each block; entry [blocks_]: those outside any block.
  std::vector<std::vector<int>> Segments() const {
    std::vector<std::vector<int>> segments(blocks_ + 1);
    for (size_t i = 0; i < variant_.decisions.size(); ++i) {
      const int block = variant_.decisions[i].block;
      segments[block < 0 ? blocks_ : block].push_back(static_cast<int>(i));
    }
    return segments;
  }

  // The kind of each block: blocks with the same decisions have the same kind.
  std::vector<int> Kinds(const std::vector<std::vector<int>>& segments) const {
    std::map<std::string, int> known;
    std::vector<int> kinds;
    for (int block = 0; block < blocks_; ++block) {
      std::string text;
      for (int d : segments[block]) {
        const Decision& decision = variant_.decisions[d];
        text += SignatureOf(base().CallOf(base().nodes()[decision.node]).get()) +
                (decision.recompute ? "r" : "") + (decision.offload ? "o" : "") + ";";
      }
      kinds.push_back(known.emplace(text, static_cast<int>(known.size())).first->second);
    }
    return kinds;
  }

  // With blocks of one kind, each option is a level. With several kinds, a level belongs to a price
  // per byte: every kind takes the option that is cheapest at that price.
  static std::vector<Level> Levels(const std::vector<std::vector<BlockOption>>& by_kind) {
    std::vector<Level> levels;
    if (by_kind.size() == 1) {
      for (const BlockOption& option : by_kind[0]) levels.push_back({&option});
      return levels;
    }
    std::set<double> prices = {0.0};
    for (const std::vector<BlockOption>& options : by_kind) {
      for (size_t i = 1; i < options.size(); ++i) {
        const double bytes = static_cast<double>(options[i].kept_bytes - options[i - 1].kept_bytes);
        if (bytes > 0) prices.insert((options[i - 1].seconds - options[i].seconds) / bytes * 1.001);
      }
    }
    for (auto price = prices.rbegin(); price != prices.rend(); ++price) {
      Level level;
      for (const std::vector<BlockOption>& options : by_kind) {
        level.push_back(&*std::min_element(
            options.begin(), options.end(), [&](const BlockOption& a, const BlockOption& b) {
              return a.seconds + *price * static_cast<double>(a.kept_bytes) <
                     b.seconds + *price * static_cast<double>(b.kept_bytes);
            }));
      }
      if (levels.empty() || levels.back() != level) levels.push_back(std::move(level));
    }
    return levels;
  }

  void Apply(const std::vector<int>& segment, const BlockOption& option,
             Assignment& assignment) const {
    for (size_t i = 0; i < segment.size(); ++i) {
      assignment[segment[i]] = option.retentions[i];
    }
  }

  // Which options of a block are searched: without offloading, with few copies, or with as many as
  // its forward pass can hide. Their actual cost is then measured on whole programs.
  enum class Copies { kNone, kInLine, kHidden };

  std::vector<BlockOption> Options(const std::vector<int>& segment, Copies copies,
                                   int count) const {
    std::vector<Decision> decisions = variant_.decisions;
    if (copies == Copies::kNone) {
      for (Decision& decision : decisions) decision.offload = false;
    }
    BlockOptionsLimits limits;
    limits.options = count;
    if (const int block = segment.empty() ? -1 : decisions[segment[0]].block;
        block >= 0 && copies == Copies::kHidden) {
      limits.hidden_seconds =
          keep_.uses[0].seconds[ForwardRegion(block)] / static_cast<double>(variant_.micro_steps);
    }
    return FindBlockOptions(base(), decisions, segment, node_seconds_, limits);
  }

  void AddMixtures(Copies copies) {
    const std::vector<std::vector<int>> segments = Segments();
    const std::vector<int> kinds = Kinds(segments);
    // In a deep model a block is a small part of the step, and every option a long program, as it
    // is of several micro-steps. The latter are tried with few.
    constexpr int kBlocks = 128, kLeast = 4, kJoined = 8;
    const int64_t most =
        variant_.micro_steps > 1 ? std::min(options_.options, kJoined) : options_.options;
    const int64_t length = std::max<int64_t>(1, blocks_ * variant_.micro_steps);
    const int options =
        static_cast<int>(std::min(most, std::max<int64_t>(kLeast, most * kBlocks / length)));
    std::vector<std::vector<BlockOption>> by_kind;
    for (int block = 0; block < blocks_; ++block) {
      if (kinds[block] == static_cast<int>(by_kind.size())) {
        by_kind.push_back(Options(segments[block], copies, options));
      }
    }
    const std::vector<Level> levels = blocks_ > 0 ? Levels(by_kind) : std::vector<Level>{{}};

    std::vector<UniformProfile> profiles(levels.size());
    ParallelEach(levels.size(), [&](size_t i) {
      Assignment assignment(variant_.decisions.size(), Retention::kSave);
      for (int block = 0; block < blocks_; ++block) {
        Apply(segments[block], *levels[i][kinds[block]], assignment);
      }
      profiles[i] = Profile(Measure(assignment), levels[i], kinds);
    });

    // The options outside the blocks. Without blocks, that is everything.
    constexpr int kSides = 4;
    const std::vector<BlockOption> sides =
        Options(segments[blocks_], copies, blocks_ > 0 ? kSides : 4 * options_.options);
    std::vector<std::vector<std::vector<int64_t>>> extra(sides.size());
    std::vector<double> side_seconds(sides.size());
    ParallelEach(sides.size(), [&](size_t i) {
      Assignment assignment(variant_.decisions.size(), Retention::kSave);
      Apply(segments[blocks_], sides[i], assignment);
      const Measured measured = Measure(assignment);
      extra[i] = Difference(measured);
      side_seconds[i] = measured.seconds() - keep_.seconds();
    });

    for (const auto& [seconds, mixture] : Mixtures(profiles, extra, side_seconds)) {
      Assignment assignment(variant_.decisions.size(), Retention::kSave);
      Apply(segments[blocks_], sides[mixture.side], assignment);
      for (int block = 0; block < blocks_; ++block) {
        const Level& level = levels[mixture.LevelOf(block, blocks_)];
        Apply(segments[block], *level[kinds[block]], assignment);
      }
      Add(std::move(assignment), seconds, mixture.peak, "");
    }
  }

  UniformProfile Profile(const Measured& measured, const Level& level,
                         const std::vector<int>& kinds) const {
    UniformProfile profile;
    profile.kept_before = {0};
    for (const RegionUse& use : measured.uses) profile.peaks.push_back(use.peaks);
    for (int block = 0; block < blocks_; ++block) {
      profile.kept_before.push_back(profile.kept_before.back() +
                                    variant_.micro_steps * level[kinds[block]]->kept_bytes);
      double seconds = 0;
      for (int region : {ForwardRegion(block), BackwardRegion(blocks_, block)}) {
        seconds += measured.seconds(region) - keep_.seconds(region);
      }
      profile.seconds.push_back(seconds);
    }
    return profile;
  }

  // The bytes by program and region, minus those when everything is kept.
  std::vector<std::vector<int64_t>> Difference(const Measured& measured) const {
    std::vector<std::vector<int64_t>> difference;
    for (size_t p = 0; p < measured.uses.size(); ++p) {
      difference.emplace_back();
      for (size_t r = 0; r < measured.uses[p].peaks.size(); ++r) {
        difference.back().push_back(measured.uses[p].peaks[r] - keep_.uses[p].peaks[r]);
      }
    }
    return difference;
  }

  MixtureFront Mixtures(const std::vector<UniformProfile>& profiles,
                        const std::vector<std::vector<std::vector<int64_t>>>& extra,
                        const std::vector<double>& side_seconds) const {
    MixtureFront front;
    const double base = keep_.seconds();
    // Levels are sorted by kept bytes: the last keeps most.
    const int top = static_cast<int>(profiles.size()) - 1;
    constexpr int kBlocksForOdd = 64;  // beyond, one block is a small part of the step
    for (int side = 0; side < static_cast<int>(extra.size()); ++side) {
      const MixtureSums sums(profiles, extra[side]);
      const auto consider = [&](const Mix& mix) {
        AddToFront(front, base + side_seconds[side] + sums.Seconds(mix),
                   {mix, side, sums.Peak(mix)});
      };
      if (blocks_ == 0) consider({});
      for (int low = 0; blocks_ > 0 && low <= top; ++low) {
        consider({.low = low, .split = blocks_});
        for (int high = low; high <= top; ++high) {
          const int odd_to = blocks_ <= kBlocksForOdd ? high : low;
          for (int odd = low; odd <= odd_to; ++odd) {
            for (int split = 0; split < blocks_; ++split) {
              const int last = split == blocks_ - 1 ? odd : high;
              consider({low, odd, high, last, split});
              if (last != top) consider({low, odd, high, top, split});
            }
          }
        }
      }
    }
    return front;
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

  // Keeps few candidates, at evenly spaced peaks, and takes their seconds and peaks from their
  // programs.
  void MeasureFront() {
    constexpr int64_t kMeasured = 12;
    std::vector<Candidate> known, front;
    for (Candidate& candidate : candidates_) {
      auto& list = measured_.contains(candidate.assignment) ? known : front;
      list.push_back(std::move(candidate));
    }
    candidates_ = std::move(known);
    if (front.empty()) return;
    const auto [least, most] = std::ranges::minmax(front, {}, &Candidate::peak_bytes);
    std::set<size_t> chosen;
    for (int64_t i = 0; i < kMeasured; ++i) {
      const int64_t peak = least.peak_bytes + (most.peak_bytes - least.peak_bytes) /
                                                  std::max<int64_t>(1, kMeasured - 1) * i;
      // By seconds: the first within the peak is the fastest.
      const auto fastest = std::ranges::find_if(
          front, [&](const Candidate& candidate) { return candidate.peak_bytes <= peak; });
      if (fastest != front.end()) chosen.insert(static_cast<size_t>(fastest - front.begin()));
    }
    const std::vector<size_t> order(chosen.begin(), chosen.end());
    std::vector<Measured> measured(order.size());
    ParallelEach(order.size(),
                 [&](size_t i) { measured[i] = Measure(front[order[i]].assignment); });
    for (size_t i = 0; i < order.size(); ++i) {
      AddMeasured(front[order[i]].assignment, measured[i], "");
    }
    KeepFront();
  }

  // Drops candidates that another beats in seconds and peak without using the host more.
  void KeepFront() {
    std::stable_sort(
        candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
          return a.seconds != b.seconds ? a.seconds < b.seconds : a.peak_bytes < b.peak_bytes;
        });
    std::vector<Candidate> front;
    int64_t lowest = std::numeric_limits<int64_t>::max(), lowest_here = lowest;
    for (Candidate& candidate : candidates_) {
      const bool offloads = Offloads(candidate);
      const int64_t bar = offloads ? lowest : lowest_here;
      if (candidate.policy.empty() && candidate.peak_bytes >= bar) continue;
      lowest = std::min(lowest, candidate.peak_bytes);
      if (!offloads) lowest_here = std::min(lowest_here, candidate.peak_bytes);
      front.push_back(std::move(candidate));
    }
    candidates_ = std::move(front);
  }

  const Variant& variant_;
  size_t index_;
  const CostModel& cost_;
  const SolverOptions& options_;
  int blocks_ = 0;
  std::vector<double> node_seconds_;  // of the base program
  int64_t persistent_bytes_ = 0;
  Measured keep_;  // with everything kept
  std::vector<Candidate> candidates_;
  std::set<Assignment> measured_;  // assignments, whether still candidates or not
};

}  // namespace

bool Offloads(const Candidate& candidate) {
  return std::ranges::find(candidate.assignment, Retention::kOffload) != candidate.assignment.end();
}

VariantBounds BoundsOf(const Variant& variant, const CostModel& cost,
                       const SolverOptions& options) {
  const std::vector<StepProgram> step = variant.realize(KeepAll(variant));
  VariantBounds bounds;
  for (const StepProgram& part : step) {
    if (part.times == 0) continue;
    bounds.seconds += static_cast<double>(part.times) * cost.ProgramSeconds(*part.program);
  }
  bounds.seconds *= 1 - kFasterThanKeeping;
  bounds.device_bytes = PersistentBytes(step, graph::Place::kDevice, options.plan.alignment);
  bounds.host_bytes = PersistentBytes(step, graph::Place::kHost, options.plan.alignment);
  return bounds;
}

std::vector<Candidate> FindCandidates(const Variant& variant, size_t index, const CostModel& cost,
                                      const SolverOptions& options) {
  if (variant.bases.size() > 1) return SearchObjectives(variant, index, cost, options);
  return VariantSearch(variant, index, cost, options).Run();
}

}  // namespace plimsoll::memory
