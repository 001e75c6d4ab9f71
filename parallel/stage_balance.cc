#include "parallel/stage_balance.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

namespace plimsoll::parallel {
namespace {

// The best way to divide the first N blocks among the first S stages.
struct Division {
  double most = std::numeric_limits<double>::infinity();  // the cost of the most expensive stage
  double squares = 0;
  size_t begin = 0;  // the first block of the last stage

  auto Key() const { return std::tie(most, squares, begin); }
};

}  // namespace

std::vector<int64_t> BalanceStages(const ModelCosts& costs, int64_t stages,
                                   std::span<const int64_t> most) {
  const size_t count = costs.blocks.size(), parts = static_cast<size_t>(stages);
  if (parts == 0 || parts > count) return {};
  // For each block, the sum of the costs of the blocks before that block.
  std::vector<double> sums = {0};
  for (const double block : costs.blocks) sums.push_back(sums.back() + block);
  std::vector<std::vector<Division>> best(parts + 1, std::vector<Division>(count + 1));
  best[0][0].most = 0;
  for (size_t part = 1; part <= parts; ++part) {
    for (size_t end = part; end <= count; ++end) {
      const size_t longest = most.empty() ? count : static_cast<size_t>(most[part - 1]);
      for (size_t begin = std::max(part - 1, end - std::min(end, longest)); begin < end; ++begin) {
        const Division& before = best[part - 1][begin];
        const double cost = sums[end] - sums[begin] + (part == 1 ? costs.before : 0) +
                            (part == parts ? costs.after : 0);
        const Division made = {std::max(before.most, cost), before.squares + cost * cost, begin};
        if (made.Key() < best[part][end].Key()) best[part][end] = made;
      }
    }
  }
  if (best[parts][count].most == std::numeric_limits<double>::infinity()) return {};
  std::vector<int64_t> blocks(parts);
  size_t end = count;
  for (size_t part = parts; part > 0; --part) {
    const size_t begin = best[part][end].begin;
    blocks[part - 1] = static_cast<int64_t>(end - begin);
    end = begin;
  }
  return blocks;
}

std::vector<double> StageCosts(const ModelCosts& costs, std::span<const int64_t> blocks) {
  std::vector<double> stages;
  size_t next = 0;
  for (const int64_t count : blocks) {
    double& stage = stages.emplace_back(stages.empty() ? costs.before : 0);
    for (int64_t i = 0; i < count; ++i) stage += costs.blocks.at(next++);
  }
  if (!stages.empty()) stages.back() += costs.after;
  return stages;
}

}  // namespace plimsoll::parallel
