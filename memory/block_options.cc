#include "memory/block_options.h"

#include <algorithm>
#include <numeric>

#include "graph/block.h"
#include "graph/step_shape.h"

namespace plimsoll::memory {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Retention;
using graph::TensorId;

// Computes how many seconds it takes to recompute the results that an assignment drops.
class Chains {
 public:
  Chains(const Program& program, std::span<const Decision> decisions,
         std::span<const double> node_seconds)
      : seconds_(node_seconds.begin(), node_seconds.end()),
        producers_(program.nodes().size()),
        block_(program.nodes().size(), graph::kNoBlock),
        available_(program.nodes().size(), false),
        visited_(program.nodes().size(), 0) {
    std::vector<int> writer(program.tensors().size(), -1);
    const graph::Blocks blocks(program);
    const size_t forward_end = graph::ForwardEnd(program);
    for (size_t n = 0; n < forward_end; ++n) {
      const Node& node = program.nodes()[n];
      block_[n] = blocks.Of(n);
      for (TensorId id : node.inputs) {
        if (id == kNoTensor) continue;
        const TensorId root = program.Root(id);
        const graph::Tensor& tensor = program.tensor(root);
        // Scalars are kept (checkpointing/saved.h).
        if (!tensor.persistent && !tensor.type.scalar() && writer[root] >= 0) {
          producers_[n].push_back(writer[root]);
        }
      }
      for (TensorId id : node.outputs) {
        if (id != kNoTensor && !node.op->view) writer[program.Root(id)] = static_cast<int>(n);
      }
    }
    for (const Decision& decision : decisions) available_[decision.node] = true;
  }

  void SetAvailable(int node, bool available) { available_[node] = available; }

  // Which nodes of other blocks read a node's results in the forward pass.
  enum class Readers { kNone, kNextBlock, kOthers };
  Readers ReadersOf(int node) const {
    Readers readers = Readers::kNone;
    if (block_[node] == graph::kNoBlock) return readers;
    for (size_t n = node + 1; n < producers_.size(); ++n) {
      const bool reads = std::ranges::find(producers_[n], node) != producers_[n].end();
      if (!reads || block_[n] == block_[node]) continue;
      if (block_[n] != block_[node] + 1) return Readers::kOthers;
      readers = Readers::kNextBlock;
    }
    return readers;
  }

  // Whether a dropped node's results can be computed again from what its own block keeps.
  bool EndsInBlock(int node) const {
    return std::ranges::all_of(producers_[node], [&](int producer) {
      return block_[producer] == block_[node] && (available_[producer] || EndsInBlock(producer));
    });
  }

  // The seconds of recomputing the results of the nodes `dropped`.
  double Seconds(std::span<const int> dropped) {
    ++round_;
    double total = 0;
    stack_.assign(dropped.begin(), dropped.end());
    while (!stack_.empty()) {
      const int node = stack_.back();
      stack_.pop_back();
      if (visited_[node] == round_) continue;
      visited_[node] = round_;
      total += seconds_[node];
      for (int producer : producers_[node]) {
        if (!available_[producer]) stack_.push_back(producer);
      }
    }
    return total;
  }

 private:
  std::vector<double> seconds_;
  std::vector<std::vector<int>> producers_;
  std::vector<int> block_;  // the block of each node
  std::vector<bool> available_;
  std::vector<int> visited_;
  std::vector<int> stack_;
  int round_ = 0;
};

using Readers = Chains::Readers;

// The allowed fates of each decision. kSave is always allowed, and comes first, except for results
// that a chain drops.
std::vector<Fates> Choices(std::span<const Decision> decisions, std::span<const int> block,
                           const std::vector<Readers>& readers, const BlockOptionsLimits& limits) {
  std::vector<Fates> choices(block.size(), {Retention::kSave});
  std::vector<size_t> order(block.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return decisions[block[a]].bytes > decisions[block[b]].bytes;
  });
  int64_t combinations = 1;
  for (size_t i : order) {
    const Decision& decision = decisions[block[i]];
    const bool leaves = readers[i] != Readers::kNone;
    if (limits.chained && leaves) {
      if (decision.recompute && readers[i] == Readers::kNextBlock) {
        choices[i] = {Retention::kRecompute};
      }
      continue;
    }
    Fates choice = {Retention::kSave};
    if (decision.recompute && (limits.leaving || !leaves)) choice.push_back(Retention::kRecompute);
    if (decision.offload && limits.offload) choice.push_back(Retention::kOffload);
    const int64_t more = combinations * static_cast<int64_t>(choice.size());
    if (more > limits.enumerate) continue;
    combinations = more;
    choices[i] = std::move(choice);
  }
  return choices;
}

// Returns at most `limit` options: the options that no other option beats (the front), and then the
// options nearest to the front.
std::vector<BlockOption> Best(std::vector<BlockOption> all, size_t limit) {
  std::stable_sort(all.begin(), all.end(), [](const BlockOption& a, const BlockOption& b) {
    if (a.kept_bytes != b.kept_bytes) return a.kept_bytes < b.kept_bytes;
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.host_bytes < b.host_bytes;
  });
  double slowest = 0;
  for (const BlockOption& option : all) slowest = std::max(slowest, option.seconds);
  // By how many seconds each option is slower than the fastest option that keeps no more bytes; 0
  // on the front.
  std::vector<std::pair<double, size_t>> excess;
  double fastest = slowest + 1;
  for (size_t i = 0; i < all.size(); ++i) {
    excess.emplace_back(std::max(0.0, all[i].seconds - fastest), i);
    if (all[i].seconds < fastest) {
      fastest = all[i].seconds;
    } else {
      excess.back().first +=
          1e-12;  // it is as fast as the previous fastest option, but keeps more bytes
    }
  }
  std::stable_sort(excess.begin(), excess.end());
  // If the front is too long, takes evenly spaced options of the front, including both ends.
  const size_t front = std::count_if(excess.begin(), excess.end(),
                                     [](const auto& entry) { return entry.first == 0; });
  std::vector<size_t> chosen;
  if (front > limit) {
    for (size_t i = 0; i < limit; ++i) {
      chosen.push_back(excess[i * (front - 1) / (limit - 1)].second);
    }
  } else {
    for (size_t i = 0; i < std::min(limit, excess.size()); ++i) chosen.push_back(excess[i].second);
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<BlockOption> best;
  for (size_t i : chosen) best.push_back(std::move(all[i]));
  return best;
}

}  // namespace

std::vector<BlockOption> FindBlockOptions(const Program& program,
                                          std::span<const Decision> decisions,
                                          std::span<const int> block,
                                          std::span<const double> node_seconds,
                                          const BlockOptionsLimits& limits) {
  Chains chains(program, decisions, node_seconds);
  std::vector<Readers> readers;
  for (int d : block) readers.push_back(chains.ReadersOf(decisions[d].node));
  const std::vector<Fates> choices = Choices(decisions, block, readers, limits);
  const bool in_block = limits.within_block && !limits.chained;
  std::vector<BlockOption> all;
  std::vector<size_t> digits(block.size(), 0);
  std::vector<int> dropped;
  while (true) {
    BlockOption option;
    dropped.clear();
    for (size_t i = 0; i < block.size(); ++i) {
      const Decision& decision = decisions[block[i]];
      const Retention fate = choices[i][digits[i]];
      option.fates.push_back(fate);
      if (fate == Retention::kSave) option.kept_bytes += decision.bytes;
      if (fate == Retention::kOffload) {
        option.host_bytes += decision.bytes;
        option.copy_seconds += decision.copy_seconds;
      }
      if (fate == Retention::kRecompute) {
        dropped.push_back(decision.node);
        if (readers[i] != Readers::kNone) option.leaving_bytes += decision.bytes;
      }
      chains.SetAvailable(decision.node, fate != Retention::kRecompute);
    }
    bool possible = true;
    for (size_t i = 0; i < block.size() && possible && in_block; ++i) {
      possible = readers[i] == Readers::kNone || option.fates[i] != Retention::kRecompute ||
                 chains.EndsInBlock(decisions[block[i]].node);
    }
    if (limits.chained) possible = option.leaving_bytes > 0;
    if (possible) {
      option.seconds =
          chains.Seconds(dropped) + 2 * std::max(0.0, option.copy_seconds - limits.hidden_seconds);
      all.push_back(std::move(option));
    }
    size_t i = 0;
    while (i < digits.size() && ++digits[i] == choices[i].size()) digits[i++] = 0;
    if (i == digits.size()) break;
  }
  return Best(std::move(all), static_cast<size_t>(limits.options));
}

double RecomputeSeconds(const Program& program, std::span<const Decision> decisions,
                        const Fates& fates, std::span<const double> node_seconds) {
  Chains chains(program, decisions, node_seconds);
  std::vector<int> dropped;
  for (size_t d = 0; d < decisions.size(); ++d) {
    if (fates[d] != Retention::kRecompute) continue;
    dropped.push_back(decisions[d].node);
    chains.SetAvailable(decisions[d].node, false);
  }
  return chains.Seconds(dropped);
}

}  // namespace plimsoll::memory
