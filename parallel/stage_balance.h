// Where a pipeline's stages begin and end, so that none of them takes much longer than the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::parallel {

// What the parts of a model cost, in any unit.
struct ModelCosts {
  std::vector<double> blocks;
  double before = 0, after = 0;  // what comes before the first block, and after the last one
};

// The number of blocks of each stage, at least one: of the divisions whose most expensive stage
// costs least, the one whose costs have the least sum of squares; of those, the one with the fewest
// blocks on early stages, which have the most micro-batches in flight. `most`: of blocks, by stage;
// empty: any number. Empty where there is no such division, as with fewer blocks than stages.
std::vector<int64_t> BalanceStages(const ModelCosts& costs, int64_t stages,
                                   std::span<const int64_t> most = {});

// The cost of each stage.
std::vector<double> StageCosts(const ModelCosts& costs, std::span<const int64_t> blocks);

}  // namespace plimsoll::parallel
