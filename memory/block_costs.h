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
  // `shapes`: those of this variant, or of another one with the same decisions. All arguments must
  // outlive this object.
  BlockCosts(const Variant& variant, const BlockShapes& shapes, const KeptUse& keep,
             const CostModel& cost, const SolverOptions& options);

  // The options that blocks may take. kSums: options whose cost is a sum over blocks; kEstimates:
  // all options of a block; kChains: the options of kSums, and chains of blocks.
  enum class Choice { kSums, kEstimates, kChains };
  // The costs with one option for the decisions outside the blocks (BlockShapes::sides).
  OptionProblem Problem(int side, Choice choice) const;
  // Whether a combination has an option that no narrower choice has.
  bool Needs(Choice choice, int side, const std::vector<int>& options) const;
  // The seconds of a step whose computation takes `work` more seconds than if everything is kept.
  // They grow by less than `work` if the step waits for offloaded parameters.
  double SecondsOf(double work) const;
  // The programs in which the costs were measured.
  const std::vector<BlockShapes::Measured>& levels() const { return levels_; }

 private:
  void AddChains(int side, OptionProblem& problem) const;
  void Learn(int level, const BlockShapes::Level& made);
  // The bytes by which a shape of a block underestimates the bytes that are alive in a region
  // (memory/step_use.h) of a program.
  int64_t Correction(size_t program, int region, int block, int shape) const;

  const Variant& variant_;
  const BlockShapes& shapes_;
  const KeptUse& keep_;
  const CostModel& cost_;
  std::vector<int64_t> keep_prefix_;  // by block: bytes that earlier blocks keep; last entry: those
                                      // of all blocks
  std::vector<BlockShapes::Measured> levels_;
  std::vector<std::vector<int64_t>> kept_;  // by level and block; last entry: bytes if everything
                                            // is kept
  // By level, program and region: the bytes by which shapes underestimate these programs.
  std::vector<std::vector<std::vector<int64_t>>> corrections_;
  std::map<double, double> totals_;  // by additional seconds of computation: seconds of a step
};

}  // namespace plimsoll::memory
