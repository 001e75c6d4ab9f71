// Chains of blocks: consecutive blocks of which only the last one keeps its output.
//
// The backward pass of a chain's last block first recomputes the chain, from the output of the
// block before the chain. The recomputed results are kept for the backward passes of the chain's
// other blocks. So a chain needs more memory at once than single blocks do, and keeps less between
// the passes:
//
//   need(chain) = max over its blocks of (bytes that earlier blocks keep and recomputed + own need)
//
// A chain's seconds and kept bytes are sums over its blocks. The terms are measured in two kinds of
// programs: all blocks are in chains of two blocks, or all are in longer chains. The needs of
// chains of any length and of any blocks follow from these terms. The needs are estimates for long
// chains whose blocks keep some results.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/block_options.h"
#include "memory/plan.h"
#include "memory/step_use.h"
#include "memory/variant.h"

namespace plimsoll::memory {

struct SolverOptions;

class BlockChains {
 public:
  struct Chain {
    int first = 0;   // the first block
    int blocks = 0;  // the number of blocks, at least 2
    // How much its blocks keep in addition to the last block's output; level 0 keeps least.
    int level = 0;
    int end() const { return first + blocks; }
  };

  // `segments`: the indices of each block's decisions, then of the decisions outside all blocks.
  // `kinds`: by block: BlockShapes::KindOf. `node_seconds`: by node of the variant's base program.
  BlockChains(const Variant& variant, std::span<const std::vector<int>> segments,
              std::span<const int> kinds, std::span<const double> node_seconds, const KeptUse& keep,
              const CostModel& cost, const SolverOptions& options);
  BlockChains() = default;

  bool any() const { return !from_.empty(); }
  // The chains whose first block is `block`.
  std::span<const Chain> From(int block) const;
  // The fates of the block's decisions if it is in this chain.
  const Fates& FatesOf(const Chain& chain, int block) const;
  int64_t Kept(const Chain& chain) const;
  // The seconds that the chain adds to a step that keeps everything.
  double Seconds(const Chain& chain) const;
  // The most bytes alive at once while the chain's blocks compute, without the bytes that earlier
  // blocks keep. `own`: by region (memory/step_use.h): the bytes that a block needs in the step
  // that keeps everything, without the bytes that earlier blocks keep.
  int64_t Need(const Chain& chain, size_t program, std::span<const int64_t> own) const;

 private:
  // The bytes and seconds that being in a chain adds to a block.
  struct Change {
    double seconds = 0;
    std::vector<int64_t> forward,
        backward;  // by program: bytes that being in a chain adds to the block's pass
  };
  // What a block needs in chains of one level, as their first, inner or last block.
  struct Link {
    Fates inner_fates, last_fates;
    int64_t inner_kept = 0, last_kept = 0;
    Change first, inner, last;
    std::vector<int64_t>
        waiting;  // by program: bytes of recomputed results kept for the block's backward pass
    // By program: the bytes that the block needs while it is recomputed, in addition to the bytes
    // that its backward pass needs when everything is kept.
    std::vector<int64_t> making;
    // Seconds of recomputing the block's cheap nodes once more. A chain takes them once for each
    // later block of the chain.
    double again = 0;
  };
  struct Level {
    std::vector<Link> links;  // by block
    std::vector<int64_t> start, update,
        head;  // by program: bytes that chains add before the blocks, in the update and in the head
  };
  // Chains that cover all blocks of a program.
  using Layout = std::vector<Chain>;

  void FindLinks(const Variant& variant, std::span<const std::vector<int>> segments,
                 std::span<const int> kinds, std::span<const double> node_seconds);
  // Covers the blocks with chains of `length` blocks, as long as `length` blocks are left. If
  // `offset` is not 0, the first chain of each sequence of linked blocks has `offset` blocks.
  Layout LayOut(int level, int offset, int length) const;
  Fates FatesOf(const Variant& variant, std::span<const std::vector<int>> segments,
                const Layout& layout) const;
  void LearnPairs(const Layout& layout, const KeptUse& keep, const StepUse& use);
  void LearnLong(const Layout& layout, const KeptUse& keep, const StepUse& use);

  int blocks_ = 0;
  std::vector<int64_t> all_bytes_;  // by block: bytes that the block keeps if it keeps everything
  std::vector<bool> linked_;        // by block: whether another block may follow it in a chain
  std::vector<Level> levels_;
  std::vector<std::vector<Chain>> from_;  // by block: the chains that begin with the block
};

}  // namespace plimsoll::memory
