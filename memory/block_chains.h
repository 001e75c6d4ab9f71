// Chains of blocks: neighbours of which only the last one keeps its output.
//
// The backward pass of a chain's last block first computes the chain again, from the output of the
// block before it. What that makes waits for the backward passes of the chain's other blocks. So a
// chain needs more than its blocks one at a time, and keeps less:
//
//   need(chain) = max over its blocks of (what the earlier ones keep and made again + own need)
//
// while its seconds and the bytes that it keeps are sums. What its blocks contribute is measured in
// programs all of whose blocks are in chains: of two blocks each, and in longer ones. Chains of any
// length follow from these, whatever blocks they consist of; where blocks keep some of their
// results, longer chains are estimates.
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
    int first = 0;   // block
    int blocks = 0;  // at least 2
    int level = 0;   // how much its blocks keep besides: 0 is least
    int end() const { return first + blocks; }
  };

  // `segments`: the decisions of each block, of which all but the last have a kind.
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
  // Beyond those of keeping everything, in a whole step.
  double Seconds(const Chain& chain) const;
  // The most bytes alive at once while its blocks work, in addition to what the blocks before it
  // keep. `own`: by region, the same of a block in the step that keeps everything.
  int64_t Need(const Chain& chain, size_t program, std::span<const int64_t> own) const;

 private:
  // What a block adds to its needs and its seconds.
  struct Change {
    double seconds = 0;
    std::vector<int64_t> forward, backward;  // bytes, by program
  };
  // A block within chains of one level.
  struct Link {
    Fates inner_fates, last_fates;
    int64_t inner_kept = 0, last_kept = 0;
    Change first, inner, last;
    std::vector<int64_t> waiting;  // bytes that it made again, by program
    // Its need while it makes them, beyond that of its backward pass when everything is kept.
    std::vector<int64_t> making;
    // Seconds for each block after it in its chain: cheap nodes are made again more than once.
    double again = 0;
  };
  struct Level {
    std::vector<Link> links;                   // by block
    std::vector<int64_t> start, update, head;  // what a chain changes at both ends of the blocks
  };
  // Chains that cover a program's blocks, as first blocks and numbers of blocks.
  using Layout = std::vector<Chain>;

  void FindLinks(const Variant& variant, std::span<const std::vector<int>> segments,
                 std::span<const int> kinds, std::span<const double> node_seconds);
  // Chains of `length` blocks where as many are left, and of `offset` blocks, if not 0, where those
  // begin that may be in chains.
  Layout LayOut(int level, int offset, int length) const;
  Fates FatesOf(const Variant& variant, std::span<const std::vector<int>> segments,
                const Layout& layout) const;
  void LearnPairs(const Layout& layout, const KeptUse& keep, const StepUse& use);
  void LearnLong(const Layout& layout, const KeptUse& keep, const StepUse& use);

  int blocks_ = 0;
  std::vector<int64_t> all_bytes_;  // by block
  std::vector<bool> linked_;        // by block: whether it may precede another one in a chain
  std::vector<Level> levels_;
  std::vector<std::vector<Chain>> from_;  // by block
};

}  // namespace plimsoll::memory
