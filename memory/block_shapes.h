// The options of a step's blocks, and how each option changes the memory and time of its block.
//
// Blocks with the same decisions have the same options, and an option changes the bytes and seconds
// of each such block by the same amounts. So an option is measured in one of these blocks, in
// programs whose blocks take different options. The first and the last block may differ from the
// other blocks (fewer gradients, other nodes after them), and are measured separately. The results
// hold for every variant with the same decisions, whether its parameters are on the device or on
// the host.
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
  // The most options of a block; 0 means that only the named policies are candidates.
  int options = 20;
  // The limit of the search that changes single decisions, in nodes of the programs that it
  // measures.
  int64_t work = 30'000;
  // Whether host and device share one memory, as on a CPU: the device's limit then holds for both
  // arenas.
  bool one_memory = false;
  // The threads of the search, which must outlive the solver; nullptr means the caller's thread.
  // The result does not depend on the number of threads.
  ThreadPool* pool = nullptr;
};

// By block: the indices of its decisions. The last entry has the decisions outside any block.
std::vector<std::vector<int>> DecisionsByBlock(const Variant& variant);
// By block: a text that describes its decisions; the last text is for the decisions outside the
// blocks. Two texts are equal if the decisions are about the same ops.
std::vector<std::string> TextsOf(const Variant& variant);

class BlockShapes {
 public:
  // What an option's recomputation adds to the step that keeps everything. Copies add nothing here:
  // a block that copies tensors still holds them while it computes.
  struct Change {
    double seconds = 0;
    // Bytes by program. `forward`, `backward`: added to the most bytes alive at once during the
    // block's pass, without the bytes that earlier blocks keep. `head`, `start`, `update`: added to
    // the most bytes alive in the head, before the blocks and in the update, if this block is the
    // nearest one.
    std::vector<int64_t> forward, backward, head, start, update;
    // How much the neighbouring blocks' options differed from this block's option in the step in
    // which the change was measured.
    double unlike = std::numeric_limits<double>::infinity();
  };
  // The options of blocks that are alike.
  struct Options {
    std::vector<BlockOption> options;
    // Shapes: the distinct sets of kept tensors among the options. Shapes whose cost is a sum over
    // blocks come first, by rising kept bytes.
    std::vector<Fates> shapes;
    size_t sums = 0;            // the number of shapes whose cost is a sum over blocks
    std::vector<int> shape_of;  // by option: the index of its shape
  };
  // A side: an option for the decisions outside the blocks.
  struct Side {
    BlockOption option;
    double seconds = 0;  // added to the seconds of keeping everything
    std::vector<std::vector<int64_t>>
        extra;  // by program and region (memory/step_use.h): added bytes
  };
  // A program that was measured.
  struct Measured {
    Fates fates;
    StepUse use;
  };

  BlockShapes(const Variant& variant, const KeptUse& keep, const CostModel& cost,
              const SolverOptions& options);

  int blocks() const { return static_cast<int>(kind_of_.size()); }
  // The kind of a block: a number that is equal for blocks that are alike. The first and the last
  // block have separate kinds.
  int KindOf(int block) const { return kind_of_[block]; }
  const Options& OptionsOf(int block) const { return options_[kinds_[kind_of_[block]].like]; }
  const Change& ChangeOf(int block, int shape) const {
    return kinds_[kind_of_[block]].changes[shape];
  }
  const std::vector<Side>& sides() const { return sides_; }
  const std::vector<Measured>& measured() const { return measured_; }
  bool any_estimate() const;
  // A level: similar choices for all blocks and for the decisions outside them. Of `levels` levels,
  // level 0 keeps least, and the last one keeps nearly everything.
  struct Level {
    int side = 0;
    std::vector<int> shapes;  // by block: the index of its shape
    Fates fates;
  };
  Level LevelOf(int level, int levels) const;
  // The bytes that a block keeps for all micro-steps: KeptBytes with a shape, AllBytes if it keeps
  // everything.
  int64_t KeptBytes(int block, int shape) const;
  int64_t AllBytes(int block) const;
  // By block: the bytes that the earlier blocks drop. The last entry is the bytes that all blocks
  // drop.
  std::vector<int64_t> DroppedBefore(const std::vector<int>& shapes) const;
  // `options`: by block: the number of an option, or the number of a chain that begins with the
  // block (ChainOf); -1 for the later blocks of a chain.
  Fates FatesOf(int side, const std::vector<int>& options) const;
  const BlockChains& chains() const { return chains_; }
  // The number that FatesOf takes for chains().From(block)[chain]. The numbers of a block's chains
  // follow those of its options.
  int ChainNumber(int block, size_t chain) const {
    return static_cast<int>(OptionsOf(block).options.size() + chain);
  }
  // The chain with that number; nullptr if the number means an option.
  const BlockChains::Chain* ChainOf(int block, int number) const {
    const auto options = static_cast<int>(OptionsOf(block).options.size());
    return number < options ? nullptr : &chains_.From(block)[number - options];
  }

 private:
  struct Kind {
    int like = 0;                 // the first kind that has the same options
    int count = 0;                // the number of blocks of this kind
    std::vector<Change> changes;  // one change per shape
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
  std::vector<double> node_seconds_;         // by node of the base program: its seconds
  std::vector<std::vector<int64_t>> bytes_;  // by block and decision: bytes for all micro-steps
  std::vector<int> kind_of_;                 // by block: its kind
  std::vector<int> place_of_;                // by block: its index among the blocks of its kind
  std::vector<Kind> kinds_;
  std::vector<Options> options_;  // one entry per kind; empty if another kind has the same options
  std::vector<Side> sides_;
  std::vector<Measured> measured_;
  BlockChains chains_;
};

}  // namespace plimsoll::memory
