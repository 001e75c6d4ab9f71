#include "memory/block_costs.h"

#include <algorithm>
#include <iterator>

#include "base/parallel_each.h"

namespace plimsoll::memory {
namespace {

// The number of measured levels (BlockShapes::Level): programs in which all blocks make similar
// choices.
constexpr int kLevels = 4;

// A copy is planned to take this multiple of its estimated time, as in the pass `offload`.
constexpr double kCopySlack = 1.5;

// Whether another option is at least as good in every respect.
bool IsDominated(const OptionCost& option, const std::vector<OptionCost>& options) {
  return std::ranges::any_of(options, [&](const OptionCost& other) {
    if (other.blocks != option.blocks) return false;
    const bool as_good = other.seconds <= option.seconds && other.kept <= option.kept &&
                         other.need <= option.need && other.arriving <= option.arriving &&
                         other.copy_seconds <= option.copy_seconds;
    const bool same = other.seconds == option.seconds && other.kept == option.kept &&
                      other.need == option.need && other.arriving == option.arriving &&
                      other.copy_seconds == option.copy_seconds;
    return as_good && (!same || other.option < option.option);
  });
}

}  // namespace

BlockCosts::BlockCosts(const Variant& variant, const BlockShapes& shapes, const KeptUse& keep,
                       const CostModel& cost, const SolverOptions& options)
    : variant_(variant), shapes_(shapes), keep_(keep), cost_(cost) {
  keep_prefix_ = {0};
  for (int block = 0; block < shapes.blocks(); ++block) {
    keep_prefix_.push_back(keep_prefix_.back() + shapes.AllBytes(block));
  }
  if (!keep.copies || !cost.rates().copies_overlap()) return;
  levels_.resize(kLevels);
  std::vector<BlockShapes::Level> made;
  for (int i = 0; i < kLevels; ++i) made.push_back(shapes.LevelOf(i, kLevels));
  ParallelEach(*options.pool, levels_.size(), [&](size_t i) {
    levels_[i] = {made[i].fates, MeasureStep(variant.build(made[i].fates), shapes.blocks(),
                                             options.plan.alignment, cost)};
  });
  totals_[0] = keep.seconds();
  for (int i = 0; i < kLevels; ++i) {
    totals_[levels_[i].use.work() - keep.work()] = levels_[i].use.seconds();
    Learn(i, made[i]);
  }
  std::vector<int64_t>& all = kept_.emplace_back();
  for (int block = 0; block < shapes.blocks(); ++block) all.push_back(shapes.AllBytes(block));
}

void BlockCosts::Learn(int level, const BlockShapes::Level& made) {
  const int end = shapes_.blocks();
  const std::vector<int64_t> dropped = shapes_.DroppedBefore(made.shapes);
  const StepUse& use = levels_[level].use;
  std::vector<int64_t>& kept = kept_.emplace_back();
  for (int block = 0; block < end; ++block) {
    kept.push_back(shapes_.KeptBytes(block, made.shapes[block]));
  }
  std::vector<std::vector<int64_t>>& corrections = corrections_.emplace_back();
  for (size_t p = 0; p < use.programs.size(); ++p) {
    std::vector<int64_t>& by_region = corrections.emplace_back(RegionCount(end));
    const auto learn = [&](int region, int before, const std::vector<int64_t>& change) {
      by_region[region] = use.programs[p].peaks[region] + dropped[before] -
                          keep_.programs[p].peaks[region] -
                          shapes_.sides()[made.side].extra[p][region] - change[p];
    };
    const auto change_of = [&](int block) -> const BlockShapes::Change& {
      return shapes_.ChangeOf(block, made.shapes[block]);
    };
    for (int block = 0; block < end; ++block) {
      learn(ForwardRegion(block), block, change_of(block).forward);
      learn(BackwardRegion(end, block), block, change_of(block).backward);
    }
    if (end == 0) continue;
    learn(0, 0, change_of(0).start);
    learn(UpdateRegion(end), 0, change_of(0).update);
    learn(HeadRegion(end), end, change_of(end - 1).head);
  }
}

// The correction of a shape's need. It is interpolated, by the bytes that the shape keeps, between
// the measured levels and the step that keeps everything.
int64_t BlockCosts::Correction(size_t program, int region, int block, int shape) const {
  if (corrections_.empty()) return 0;
  const int64_t kept = shapes_.KeptBytes(block, shape);
  const auto of = [&](int level) {
    return level == kLevels ? 0.0 : static_cast<double>(corrections_[level][program][region]);
  };
  int level = 0;
  while (level < kLevels && kept_[level + 1][block] < kept) ++level;
  if (level == kLevels) return 0;
  const auto from = static_cast<double>(kept_[level][block]),
             to = static_cast<double>(kept_[level + 1][block]);
  if (to <= from || static_cast<double>(kept) <= from) return static_cast<int64_t>(of(level));
  const double part = (static_cast<double>(kept) - from) / (to - from);
  return static_cast<int64_t>(of(level) + part * (of(level + 1) - of(level)));
}

double BlockCosts::SecondsOf(double work) const {
  if (totals_.size() < 2) return keep_.seconds() + work;
  auto next = totals_.lower_bound(work);
  if (next == totals_.begin()) ++next;
  if (next == totals_.end()) --next;
  const auto& [from, least] = *std::prev(next);
  const auto& [to, most] = *next;
  return least + (work - from) * (most - least) / (to - from);
}

OptionProblem BlockCosts::Problem(int side, Choice choice) const {
  const int end = shapes_.blocks();
  const std::vector<std::vector<int64_t>>& extra = shapes_.sides()[side].extra;
  OptionProblem problem;
  for (int block = 0; block < end; ++block) {
    const std::vector<BlockOption>& options = shapes_.OptionsOf(block).options;
    std::vector<OptionCost>& costs = problem.blocks.emplace_back();
    for (size_t i = 0; i < options.size(); ++i) {
      if (choice != Choice::kEstimates && options[i].IsEstimate()) continue;
      const int shape = shapes_.OptionsOf(block).shape_of[i];
      const BlockShapes::Change& change = shapes_.ChangeOf(block, shape);
      // The most bytes of any program in a region, without the `before` bytes of earlier blocks,
      // with `change`.
      const auto most = [&](int region, int64_t before, const std::vector<int64_t>& of) {
        int64_t bytes = 0;
        for (size_t p = 0; p < keep_.programs.size(); ++p) {
          bytes = std::max(bytes, keep_.programs[p].peaks[region] - before + extra[p][region] +
                                      of[p] + Correction(p, region, block, shape));
        }
        return bytes;
      };
      OptionCost cost;
      cost.option = static_cast<int>(i);
      cost.seconds = change.seconds;
      cost.kept = variant_.copies() * options[i].kept_bytes;
      cost.need = std::max(most(ForwardRegion(block), keep_prefix_[block], change.forward),
                           most(BackwardRegion(end, block), keep_prefix_[block], change.backward));
      // The need before the blocks and in the update counts as a need of the nearest block.
      if (block == 0) {
        cost.need = std::max(
            {cost.need, most(0, 0, change.start), most(UpdateRegion(end), 0, change.update)});
      }
      if (block == end - 1) {
        cost.need =
            std::max(cost.need, cost.kept + most(HeadRegion(end), keep_prefix_[end], change.head));
      }
      cost.arriving = options[i].leaving_bytes;
      if (cost_.rates().copies_overlap()) {
        cost.arriving += options[i].host_bytes;
        cost.copy_seconds = options[i].copy_seconds;
      }
      costs.push_back(cost);
    }
  }
  if (choice == Choice::kChains) AddChains(side, problem);
  for (std::vector<OptionCost>& costs : problem.blocks) {
    const std::vector<OptionCost> all = costs;
    std::erase_if(costs, [&](const OptionCost& cost) { return IsDominated(cost, all); });
  }
  for (int block = 0; block < end; ++block) problem.likes.push_back(shapes_.KindOf(block));
  const double once = 1 / static_cast<double>(variant_.micro_steps);
  const std::vector<double>& work = keep_.programs[0].work;
  for (int block = 0; block < end; ++block) {
    problem.times.push_back(
        {once * work[ForwardRegion(block)], once * work[BackwardRegion(end, block)]});
  }
  problem.head_seconds = once * work[HeadRegion(end)];
  problem.copy_slack = kCopySlack;
  problem.copies_slow = cost_.rates().copies_slow();
  problem.micro_steps = keep_.micro_steps;
  return problem;
}

void BlockCosts::AddChains(int side, OptionProblem& problem) const {
  const int end = shapes_.blocks();
  const BlockChains& chains = shapes_.chains();
  // By program and region: the bytes that each block needs if everything is kept, without the bytes
  // that earlier blocks keep.
  std::vector<std::vector<int64_t>> own = shapes_.sides()[side].extra;
  for (size_t p = 0; p < own.size(); ++p) {
    for (size_t r = 0; r < own[p].size(); ++r) own[p][r] += keep_.programs[p].peaks[r];
    for (int block = 0; block < end; ++block) {
      own[p][ForwardRegion(block)] -= keep_prefix_[block];
      own[p][BackwardRegion(end, block)] -= keep_prefix_[block];
    }
    own[p][HeadRegion(end)] -= keep_prefix_[end];
  }
  for (int block = 0; block < end; ++block) {
    const std::span<const BlockChains::Chain> from = chains.From(block);
    for (size_t i = 0; i < from.size(); ++i) {
      OptionCost& cost = problem.blocks[block].emplace_back();
      cost.option = shapes_.ChainNumber(block, i);
      cost.blocks = from[i].blocks;
      cost.seconds = chains.Seconds(from[i]);
      cost.kept = chains.Kept(from[i]);
      // In a program that is only planned, not timed (an evaluation), blocks keep nothing.
      for (size_t p = 0; p < own.size(); ++p) {
        if (keep_.times[p] > 0) cost.need = std::max(cost.need, chains.Need(from[i], p, own[p]));
      }
    }
  }
}

bool BlockCosts::Needs(Choice choice, int side, const std::vector<int>& options) const {
  if (choice == Choice::kSums) return true;
  bool estimate = shapes_.sides()[side].option.IsEstimate(), chain = false;
  for (int block = 0; block < shapes_.blocks(); ++block) {
    const int number = options[block];
    if (number < 0) continue;
    if (shapes_.ChainOf(block, number) != nullptr) {
      chain = true;
    } else {
      estimate = estimate || shapes_.OptionsOf(block).options[number].IsEstimate();
    }
  }
  return choice == Choice::kChains ? chain : estimate;
}

}  // namespace plimsoll::memory
