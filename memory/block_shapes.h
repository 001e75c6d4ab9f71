// The options of a step's blocks, and what each changes in the memory and time of its block.
//
// Blocks with the same decisions have the same options, and an option changes what such a block
// needs and takes by as much wherever it stands: it is measured in one of them, in programs whose
// blocks take different options. The first and the last block may differ (in what a gradient is
// needed for, in what follows), and are measured apart. All of this holds for every variant with
// these decisions, wherever its parameters live.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "memory/block_chains.h"
#include "memory/block_options.h"
#include "memory/plan.h"
#include "memory/step_use.h"
#include "memory/variant.h"

namespace plimsoll::memory {

struct SolverOptions {
  PlanOptions plan = {};
  int options = 20;  // of a block; 0: the named policies alone
  // Bound for improving by single changes: number of nodes of the programs made and examined.
  int64_t work = 30'000;
  // The host's memory is the device's, as on a CPU: the device's limit holds for both arenas.
  bool one_memory = false;
  // The threads for the search, which must outlive the solver; nullptr: the caller's thread alone.
  // The result is the same.
  ThreadPool* pool = nullptr;
};

// By block: its decisions; last: those outside any block.
std::vector<std::vector<int>> DecisionsByBlock(const Variant& variant);
// By block, then outside: equal texts for the same decisions about the same ops.
std::vector<std::string> TextsOf(const Variant& variant);

class BlockShapes {
 public:
  // What an option recomputes, without its copies: such a block holds all else while it works.
  struct Change {
    double seconds = 0;
    // Bytes by program: most alive at once in a block's two passes, beside what the blocks before
    // it keep; and outside of the blocks, where the block is the nearest.
    std::vector<int64_t> forward, backward, head, start, update;
    // How unlike it its neighbours were treated where it was measured.
    double unlike = std::numeric_limits<double>::infinity();
  };
  // Of blocks that are alike.
  struct Options {
    std::vector<BlockOption> options;
    // By what they keep: first those that are sums, of which the last keeps most, then the others.
    std::vector<Fates> shapes;
    size_t sums = 0;            // how many are
    std::vector<int> shape_of;  // by option
  };
  // A way to treat what is outside the blocks.
  struct Side {
    BlockOption option;
    double seconds = 0;                       // beyond those of keeping everything
    std::vector<std::vector<int64_t>> extra;  // bytes by program and region
  };
  // A program that was measured.
  struct Measured {
    Fates fates;
    StepUse use;
  };

  BlockShapes(const Variant& variant, const KeptUse& keep, const CostModel& cost,
              const SolverOptions& options);

  int blocks() const { return static_cast<int>(kind_of_.size()); }
  // Equal for blocks that are alike and neither of which is the first or the last.
  int KindOf(int block) const { return kind_of_[block]; }
  const Options& OptionsOf(int block) const { return options_[kinds_[kind_of_[block]].like]; }
  const Change& ChangeOf(int block, int shape) const {
    return kinds_[kind_of_[block]].changes[shape];
  }
  const std::vector<Side>& sides() const { return sides_; }
  const std::vector<Measured>& measured() const { return measured_; }
  bool any_estimate() const;
  // All blocks, and what is outside, treated alike: level 0 of `levels` keeps least, the last but
  // one nearly all.
  struct Level {
    int side = 0;
    std::vector<int> shapes;  // by block
    Fates fates;
  };
  Level LevelOf(int level, int levels) const;
  // For all micro-steps, with a shape, and of everything.
  int64_t KeptBytes(int block, int shape) const;
  int64_t AllBytes(int block) const;
  // Bytes that the blocks before each one do not keep; last: all blocks.
  std::vector<int64_t> DroppedBefore(const std::vector<int>& shapes) const;
  // By block: an option's number, that of a chain that begins there (ChainOf), or -1 within a
  // chain.
  Fates FatesOf(int side, const std::vector<int>& options) const;
  const BlockChains& chains() const { return chains_; }
  // Chains are numbered after a block's options.
  int ChainNumber(int block, size_t chain) const {
    return static_cast<int>(OptionsOf(block).options.size() + chain);
  }
  // nullptr: the number is that of an option.
  const BlockChains::Chain* ChainOf(int block, int number) const {
    const auto options = static_cast<int>(OptionsOf(block).options.size());
    return number < options ? nullptr : &chains_.From(block)[number - options];
  }

 private:
  struct Kind {
    int like = 0;                 // the kind whose options it has
    int count = 0;                // of blocks
    std::vector<Change> changes;  // by shape
  };

  void GroupBlocks(const Variant& variant);
  bool copies_overlap() const { return cost_.rates().copies_overlap(); }
  Options FindOptions(const Variant& variant, int block, const KeptUse& keep) const;
  StepUse Measure(const Variant& variant, const Fates& fates) const;
  void MeasureSides(const Variant& variant, const KeptUse& keep);
  void MeasureShapes(const Variant& variant, const KeptUse& keep);
  int SumIn(int block, size_t program, size_t programs) const;
  void Record(const StepUse& keep, const StepUse& use, const std::vector<int>& shapes, int side);
  void Apply(int segment, const Fates& option, Fates& fates) const;

  const CostModel& cost_;
  const SolverOptions& search_;
  size_t decisions_;
  std::vector<std::vector<int>> segments_;
  std::vector<double> node_seconds_;         // of the base
  std::vector<std::vector<int64_t>> bytes_;  // by block and decision, for all micro-steps
  std::vector<int> kind_of_;                 // by block
  std::vector<int> place_of_;                // by block: its place among those of its kind
  std::vector<Kind> kinds_;
  std::vector<Options> options_;  // by kind; empty where another one has them
  std::vector<Side> sides_;
  std::vector<Measured> measured_;
  BlockChains chains_;
};

}  // namespace plimsoll::memory
