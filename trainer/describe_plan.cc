#include "trainer/describe_plan.h"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace plimsoll::trainer {
namespace {

using graph::Retention;

// "mlp.gelu" for "block.3.mlp.gelu".
std::string WithoutBlock(const std::string& name, int block) {
  const std::string prefix = fmt::format("block.{}.", block);
  return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
}

// Of one block: "recompute norm_1, norm_2; offload attn.qkv", or "keep all".
class Treatment {
 public:
  void Add(const memory::Decision& decision, Retention retention) {
    std::vector<std::string>* names = retention == Retention::kRecompute ? &recomputed_
                                      : retention == Retention::kOffload ? &offloaded_
                                                                         : &kept_;
    names->push_back(WithoutBlock(decision.tensors.front(), decision.block));
  }
  std::string Text() const {
    if (recomputed_.empty() && offloaded_.empty()) return "keep all";
    std::vector<std::string> parts;
    if (!recomputed_.empty() && offloaded_.empty() && kept_.size() < recomputed_.size()) {
      return kept_.empty() ? "recompute all"
                           : fmt::format("recompute all but {}", fmt::join(kept_, ", "));
    }
    if (!recomputed_.empty()) {
      parts.push_back(fmt::format("recompute {}", fmt::join(recomputed_, ", ")));
    }
    if (!offloaded_.empty()) {
      parts.push_back(fmt::format("offload {}", fmt::join(offloaded_, ", ")));
    }
    return fmt::format("{}", fmt::join(parts, " and "));
  }

 private:
  std::vector<std::string> kept_, recomputed_, offloaded_;
};

}  // namespace

std::string DescribeAssignment(std::span<const memory::Decision> decisions,
                               const memory::Assignment& assignment) {
  std::map<int, Treatment> by_block;
  bool all_kept = true;
  for (size_t d = 0; d < decisions.size(); ++d) {
    by_block[decisions[d].block].Add(decisions[d], assignment[d]);
    all_kept = all_kept && assignment[d] == Retention::kSave;
  }
  if (all_kept) return "keep all";
  std::vector<std::string> parts;
  std::string outside;
  for (auto block = by_block.begin(); block != by_block.end();) {
    const std::string text = block->second.Text();
    if (block->first < 0) {
      if (text != "keep all") outside = text + " outside the blocks";
      ++block;
      continue;
    }
    const int first = block->first;
    int last = first;
    for (++block; block != by_block.end() && block->second.Text() == text; ++block) {
      last = block->first;
    }
    parts.push_back(first == last ? fmt::format("block {}: {}", first, text)
                                  : fmt::format("blocks {}-{}: {}", first, last, text));
  }
  constexpr size_t kReadable = 5;
  if (parts.size() > kReadable) {  // blocks alternate, as with every k
    std::map<std::string, int> blocks_by_text;
    for (const auto& [block, treatment] : by_block) {
      if (block >= 0) ++blocks_by_text[treatment.Text()];
    }
    parts.clear();
    for (const auto& [text, blocks] : blocks_by_text) {
      parts.push_back(fmt::format("{} block{}: {}", blocks, blocks == 1 ? "" : "s", text));
    }
  }
  if (!outside.empty()) parts.push_back(outside);
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace plimsoll::trainer
