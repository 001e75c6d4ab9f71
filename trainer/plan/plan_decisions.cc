#include "trainer/plan/plan_decisions.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "graph/block.h"
#include "graph/micro_steps.h"

namespace plimsoll::trainer {
namespace {

// The decisions, in the order in which a text lists them.
constexpr std::array<const char*, 3> kDecided = {"recompute", "offload", "host"};
// The numbers of blocks for each decision; kNoBlock for a tensor outside any block.
using DecidedBlocks = std::array<std::set<int>, kDecided.size()>;

// Splits off the block's number: "block.*.mlp.fc" and 3 for "block.3.mlp.fc".
std::pair<std::string, int> WithoutNumber(std::string_view name) {
  const std::string_view block = graph::BlockIn(name);
  if (block.empty()) return {std::string(name), graph::kNoBlock};
  const graph::BlockName parts = graph::ParseBlock(block);
  return {parts.kind + ".*" + std::string(name.substr(block.size())), parts.number};
}

// Formats numbers as ranges: "0-7, 9".
std::string RangesText(const std::set<int>& numbers) {
  std::string text;
  for (auto number = numbers.begin(); number != numbers.end();) {
    const int first = *number;
    int last = first;
    for (++number; number != numbers.end() && *number == last + 1; ++number) last = *number;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

std::string DecidedText(const DecidedBlocks& decided) {
  std::string text;
  for (size_t i = 0; i < kDecided.size(); ++i) {
    if (decided[i].empty()) continue;
    text += (text.empty() ? "" : "; ") + std::string(kDecided[i]);
    if (!decided[i].contains(graph::kNoBlock)) text += " " + RangesText(decided[i]);
  }
  return text;
}

}  // namespace

nlohmann::ordered_json DecisionsJson(const CompiledStep& compiled) {
  std::map<std::string, DecidedBlocks> tensors;
  const auto add = [&](std::string_view name, size_t decided) {
    const auto [starred, number] = WithoutNumber(graph::ParseMicroStepName(name).name);
    tensors[starred][decided].insert(number);
  };
  for (const auto& program : compiled.programs) {
    for (const graph::Tensor& tensor : program->tensors()) {
      if (tensor.persistent || tensor.retention == graph::Retention::kSave) continue;
      add(tensor.name, tensor.retention == graph::Retention::kRecompute ? 0 : 1);
    }
  }
  for (const memory::PersistentTensor& tensor : compiled.plan.persistent) {
    if (tensor.place == graph::Place::kHost) add(tensor.name, 2);
  }
  auto json = nlohmann::ordered_json::object();
  for (const auto& [name, decided] : tensors) json[name] = DecidedText(decided);
  return json;
}

}  // namespace plimsoll::trainer
