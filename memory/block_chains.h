// Chains of blocks: consecutive blocks of which only the last one keeps its output.
//
// The backward pass of a chain's last block first recomputes the chain, from the output of the
// block before the chain. The results are kept for the backward passes of the chain's other blocks.
// So a chain needs more memory at once than single blocks, and keeps less:
//
//   need(chain) = max over its blocks of (bytes that earlier blocks keep and recomputed + own need)
//
// Its seconds and kept bytes are sums over its blocks. The terms are measured in programs all of
// whose blocks are in chains: of two blocks each, and of longer ones. The needs of chains of any
// length and of any blocks follow from them. They are estimates for long chains whose blocks keep
// some results.
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
    int level = 0;   // how much its blocks keep in addition to the output; 0 is least
    int end() const { return first + blocks; }
  };

  // `segments`: the decisions of each block, then those outside all blocks. `kinds`: by block.
  BlockChains(const Variant& variant, std::span<const std::vector<int>> segments,
              std::span<const int> kinds, std::span<const double> node_seconds, const KeptUse& keep,
              const CostModel& cost, const SolverOptions& options);
  BlockChains() = default;

  bool any() const { return !from_.empty(); }
  // The chains that begin with a block.
  std::span<const Chain> From(int block) const;
  // The fates of a block's decisions within a chain.
  const Fates& FatesOf(const Chain& chain, int block) const;
  int64_t Kept(const Chain& chain) const;
  // The seconds of a step in addition to those of keeping everything.
  double Seconds(const Chain& chain) const;
  // The most bytes alive at once while the chain's blocks compute, without the bytes that earlier
  // blocks keep. `own`: by region, the bytes that a single block needs in addition to those
  // that earlier blocks keep, in the step that keeps everything.
  int64_t Need(const Chain& chain, size_t program, std::span<const int64_t> own) const;

 private:
  // The bytes and seconds that being in a chain adds to a block.
  struct Change {
    double seconds = 0;
    std::vector<int64_t> forward, backward;  // bytes that being in a chain adds, by program
  };
  // A block within chains of one level.
  struct Link {
    Fates inner_fates, last_fates;
    int64_t inner_kept = 0, last_kept = 0;
    Change first, inner, last;
    std::vector<int64_t>
        waiting;  // bytes of recomputed results kept for the backward pass, by program
    // The bytes that the block needs while it recomputes, in addition to those of its backward pass
    // when everything is kept.
    std::vector<int64_t> making;
    // Seconds for each later block of its chain: cheap nodes are recomputed once more for each.
    double again = 0;
  };
  struct Level {
    std::vector<Link> links;                   // one link per block
    std::vector<int64_t> start, update, head;  // bytes that a chain adds in these parts
  };
  // Chains that cover all blocks of a program.
  using Layout = std::vector<Chain>;

  void FindLinks(const Variant& variant, std::span<const std::vector<int>> segments,
                 std::span<const int> kinds, std::span<const double> node_seconds);
  // Covers the blocks with chains of `length` blocks, as long as that many blocks are left. The
  // first chain of each run of blocks that may be in chains has `offset` blocks, unless that is 0.
  Layout LayOut(int level, int offset, int length) const;
  Fates FatesOf(const Variant& variant, std::span<const std::vector<int>> segments,
                const Layout& layout) const;
  void LearnPairs(const Layout& layout, const KeptUse& keep, const StepUse& use);
  void LearnLong(const Layout& layout, const KeptUse& keep, const StepUse& use);

  int blocks_ = 0;
  std::vector<int64_t> all_bytes_;  // by block: bytes that it keeps if it keeps everything
  std::vector<bool> linked_;        // by block: whether another block may follow it in a chain
  std::vector<Level> levels_;
  std::vector<std::vector<Chain>> from_;  // chains by their first block
};

}  // namespace plimsoll::memory
