// The cost of each option of each block in a variant, as the input of the search in
// memory/option_front.h.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "memory/block_shapes.h"
#include "memory/option_front.h"

namespace plimsoll::memory {

class BlockCosts {
 public:
  // `shapes`: the shapes of this variant, or of another variant with the same decisions. All
  // arguments must outlive this object.
  BlockCosts(const Variant& variant, const BlockShapes& shapes, const KeptUse& keep,
             const CostModel& cost, const SolverOptions& options);

  // The options that blocks may take. kSums: options whose cost is a sum over blocks. kEstimates:
  // all options of a block. kChains: the options of kSums, and chains of blocks.
  enum class Choice { kSums, kEstimates, kChains };
  // The costs of the blocks' options together with option `side` for the decisions outside the
  // blocks (BlockShapes::sides).
  OptionProblem Problem(int side, Choice choice) const;
  // Whether the combination `options` needs `choice`: kEstimates if the cost of an option is no sum
  // over blocks, kChains if it has a chain, kSums always.
  bool Needs(Choice choice, int side, const std::vector<int>& options) const;
  // The seconds of a step whose computation takes `work` more seconds than if everything is kept.
  // The step's seconds grow by less than `work` if the step waits for offloaded parameters.
  double SecondsOf(double work) const;
  // The programs in which the costs were measured. A level is the index of such a program: at level
  // 0 blocks keep least.
  const std::vector<BlockShapes::Measured>& levels() const { return levels_; }

 private:
  void AddChains(int side, OptionProblem& problem) const;
  void Learn(int level, const BlockShapes::Level& made);
  // The bytes that are alive in a region (memory/step_use.h) of a program, minus the bytes that a
  // shape of a block predicts there.
  int64_t Correction(size_t program, int region, int block, int shape) const;

  const Variant& variant_;
  const BlockShapes& shapes_;
  const KeptUse& keep_;
  const CostModel& cost_;
  std::vector<int64_t> keep_prefix_;  // by block: bytes that earlier blocks keep; last entry: bytes
                                      // that all blocks keep
  std::vector<BlockShapes::Measured> levels_;
  std::vector<std::vector<int64_t>>
      kept_;  // by level and block: kept bytes; last entry: kept bytes if everything is kept
  // By level, program and region: measured bytes minus the bytes that shapes predict.
  std::vector<std::vector<std::vector<int64_t>>> corrections_;
  std::map<double, double>
      totals_;  // maps additional seconds of computation to the seconds of a step
};

}  // namespace plimsoll::memory
