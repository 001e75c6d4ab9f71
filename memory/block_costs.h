// What each option of each block costs in a variant: a problem for memory/option_front.h.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "memory/block_shapes.h"
#include "memory/option_front.h"

namespace plimsoll::memory {

class BlockCosts {
 public:
  // `shapes`: of this variant, or of another one with the same decisions. All must outlive this
  // object.
  BlockCosts(const Variant& variant, const BlockShapes& shapes, const KeptUse& keep,
             const CostModel& cost, const SolverOptions& options);

  // Which options blocks may take: those that are sums, all of a block's, or sums and chains of
  // blocks.
  enum class Choice { kSums, kEstimates, kChains };
  // The costs with one side of the shapes.
  OptionProblem Problem(int side, Choice choice) const;
  // Whether a combination is one that no narrower choice has.
  bool Needs(Choice choice, int side, const std::vector<int>& options) const;
  // The seconds of a step whose computation takes that many more than when everything is kept:
  // where it waits for parameters, less than their sum.
  double SecondsOf(double work) const;
  // The programs of which that was learnt.
  const std::vector<BlockShapes::Measured>& levels() const { return levels_; }

 private:
  void AddChains(int side, OptionProblem& problem) const;
  void Learn(int level, const BlockShapes::Level& made);
  // How many bytes more than by its shape alone are alive in a program's region.
  int64_t Correction(size_t program, int region, int block, int shape) const;

  const Variant& variant_;
  const BlockShapes& shapes_;
  const KeptUse& keep_;
  const CostModel& cost_;
  std::vector<int64_t> keep_prefix_;  // bytes that the blocks before each one keep; last: all
  std::vector<BlockShapes::Measured> levels_;
  std::vector<std::vector<int64_t>> kept_;  // by level and block; last: everything
  // What the shapes leave out of these programs, by level, program and region.
  std::vector<std::vector<std::vector<int64_t>>> corrections_;
  std::map<double, double> totals_;  // seconds of a step, by seconds more of its computation
};

}  // namespace plimsoll::memory
