// Balances a pipeline: chooses where stages begin and end, so that no stage takes much longer than
// the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::parallel {

// The costs of a model's blocks and of the layers outside them, in any unit.
struct ModelCosts {
  std::vector<double> blocks;
  // The costs of the parts before the first block and after the last block.
  double before = 0, after = 0;
};

// The number of blocks of each stage, at least one. The division is chosen by three criteria, in
// this order: the most expensive stage costs least; the sum of squares of the stages' costs is
// least; the early stages, which have the most micro-batches in flight, have the fewest blocks.
// `most`: the largest number of blocks of each stage; empty means that any number is allowed.
// Returns an empty vector if no such division exists, as with fewer blocks than stages.
std::vector<int64_t> BalanceStages(const ModelCosts& costs, int64_t stages,
                                   std::span<const int64_t> most = {});

// The cost of each stage.
std::vector<double> StageCosts(const ModelCosts& costs, std::span<const int64_t> blocks);

}  // namespace plimsoll::parallel
