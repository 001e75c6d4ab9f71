#include "trainer/resolve/fates_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "graph/block.h"

namespace plimsoll::trainer {
namespace {

using graph::Retention;

// Limits for readability: the names in a list, and the number of treatments of blocks.
constexpr size_t kNames = 8, kWays = 4;

// The decision's first tensor without its block: "mlp.gelu" for "block.3.mlp.gelu",
// "mlp.norm.whole" for "block.3.mlp.block.3.norm.whole", and "mlp.up.weight" for a gathered
// parameter.
std::string NameInBlock(const memory::Decision& decision) {
  std::string name = decision.tensors.front();
  const std::string block = decision.block_name + ".";
  for (size_t at = name.find(block); at != std::string::npos; at = name.find(block, at)) {
    name.erase(at, block.size());
  }
  return decision.parameter ? name.substr(0, name.rfind(".gathered")) : name;
}

std::string List(const std::vector<std::string>& names) {
  if (names.size() <= kNames) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kNames - 1, ", "),
                     names.size() - kNames + 1);
}

// The text of how one block is treated: "recompute norm_1, norm_2 and offload attn.qkv", or "keep
// all".
class Treatment {
 public:
  // The block of the added decisions; empty if none was added.
  const std::string& block() const { return block_; }

  void Add(const memory::Decision& decision, Retention retention) {
    block_ = decision.block_name;
    Fates& fates = decision.parameter ? parameters_ : activations_;
    fates[static_cast<size_t>(retention)].push_back(NameInBlock(decision));
  }

  std::string Text() const {
    std::vector<std::string> parts;
    Describe(activations_, Retention::kRecompute, "recompute {}", "all", parts);
    Describe(activations_, Retention::kOffload, "offload {}", "all", parts);
    Describe(parameters_, Retention::kRecompute, "gather {} again", "all weights", parts);
    return parts.empty() ? "keep all" : fmt::format("{}", fmt::join(parts, " and "));
  }

 private:
  using Fates = std::vector<std::string>[3];  // names of tensors by Retention

  // Lists the names with this retention, or "all but" the other names if these are fewer.
  static void Describe(const Fates& fates, Retention retention, std::string_view form,
                       std::string_view all, std::vector<std::string>& parts) {
    const std::vector<std::string>& names = fates[static_cast<size_t>(retention)];
    if (names.empty()) return;
    std::vector<std::string> others;
    for (size_t fate = 0; fate < std::size(fates); ++fate) {
      if (fate == static_cast<size_t>(retention)) continue;
      others.insert(others.end(), fates[fate].begin(), fates[fate].end());
    }
    const std::string what = others.empty() ? std::string(all)
                             : others.size() < names.size()
                                 ? fmt::format("{} but {}", all, List(others))
                                 : List(names);
    parts.push_back(fmt::format(fmt::runtime(form), what));
  }

  std::string block_;
  Fates activations_, parameters_;
};

// "blocks 0-3: keep all" for each run of consecutive blocks with equal treatment.
std::vector<std::string> Runs(const std::map<int, Treatment>& blocks) {
  std::vector<std::string> runs;
  for (auto block = blocks.begin(); block != blocks.end();) {
    const std::string text = block->second.Text();
    const auto [kind, first] = graph::ParseBlock(block->second.block());
    int last = first;
    for (++block; block != blocks.end() && block->second.Text() == text; ++block) {
      const auto [its_kind, number] = graph::ParseBlock(block->second.block());
      if (its_kind != kind) break;
      last = number;
    }
    runs.push_back(first == last ? fmt::format("{} {}: {}", kind, first, text)
                                 : fmt::format("{}s {}-{}: {}", kind, first, last, text));
  }
  return runs;
}

// "12 blocks: keep all" for each treatment, the most frequent first; used if treatments alternate.
std::vector<std::string> Counts(const std::map<int, Treatment>& blocks) {
  std::map<std::string, int> known;
  for (const auto& [block, treatment] : blocks) ++known[treatment.Text()];
  std::vector<std::pair<std::string, int>> ways(known.begin(), known.end());
  std::stable_sort(ways.begin(), ways.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const auto of = [](int blocks_of_it) { return Counted(blocks_of_it, "block"); };
  std::vector<std::string> counts;
  int others = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways.size() > kWays && i + 1 >= kWays) {
      others += ways[i].second;
    } else {
      counts.push_back(of(ways[i].second) + ": " + ways[i].first);
    }
  }
  if (others > 0) {
    counts.push_back(
        fmt::format("{} in {}", of(others), Counted(ways.size() - counts.size(), "other way")));
  }
  return counts;
}

}  // namespace

std::string FatesText(std::span<const memory::Decision> decisions, const memory::Fates& fates) {
  if (std::ranges::all_of(fates, [](Retention r) { return r == Retention::kSave; })) {
    return "keep all";
  }
  std::map<int, Treatment> blocks;
  Treatment outside;
  for (size_t d = 0; d < decisions.size(); ++d) {
    const int block = decisions[d].block;
    (block < 0 ? outside : blocks[block]).Add(decisions[d], fates[d]);
  }
  std::vector<std::string> parts = Runs(blocks);
  if (parts.size() > kWays) parts = Counts(blocks);
  if (const std::string text = outside.Text(); text != "keep all") {
    parts.push_back(text + " outside the blocks");
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace plimsoll::trainer
