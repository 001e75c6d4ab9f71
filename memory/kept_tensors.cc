#include "memory/kept_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::memory {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

template <typename List, typename Value>
bool Has(const List& list, const Value& value) {
  return std::ranges::find(list, value) != std::ranges::end(list);
}

// How a program first uses a carried tensor.
enum class FirstUse : uint8_t { kNone, kReads, kWrites };

// A node that writes only a part of the tensor leaves the tensor's other bytes as they are, and so
// counts as a reader.
FirstUse FirstUseOf(const Program& program, TensorId tensor) {
  const auto is = [&](TensorId id) { return id != kNoTensor && program.Root(id) == tensor; };
  for (const Node& node : program.nodes()) {
    if (std::ranges::any_of(node.inputs, is)) return FirstUse::kReads;
    if (node.op->view || std::ranges::none_of(node.outputs, is)) continue;
    return Has(node.outputs, tensor) ? FirstUse::kWrites : FirstUse::kReads;
  }
  return FirstUse::kNone;
}

bool IsOnDevice(const Program& program, TensorId id) {
  return program.tensor(id).place == graph::Place::kDevice;
}

// By program: when it needs the tensor `name`.
std::vector<KeptNeed> NeedsOf(std::string_view name, std::span<const Program* const> programs,
                              const std::vector<int>& runs) {
  std::vector<FirstUse> first(programs.size(), FirstUse::kNone);
  for (size_t p = 0; p < programs.size(); ++p) {
    const TensorId id = programs[p]->Find(name);
    if (id == kNoTensor || !programs[p]->tensor(id).persistent) continue;
    first[p] = FirstUseOf(*programs[p], id);
    const bool in_step = Has(runs, static_cast<int>(p));
    if (!IsOnDevice(*programs[p], id) || (first[p] != FirstUse::kNone && !in_step)) {
      return std::vector<KeptNeed>(programs.size());
    }
  }
  std::vector<KeptNeed> needs(programs.size(), {.before = false, .after = false});
  bool needed = false;  // the next run needs the value; runs are visited from the last to the first
  for (const bool known : {false, true}) {  // whether the needs of the next step are known
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
      const auto p = static_cast<size_t>(*run);
      if (known) needs[p].after |= needed;
      if (first[p] != FirstUse::kNone) needed = first[p] == FirstUse::kReads;
      if (known) needs[p].before |= needed;
    }
  }
  for (size_t p = 0; p < programs.size(); ++p) {
    if (!Has(runs, static_cast<int>(p))) needs[p] = {needed, needed};
  }
  return needs;
}

}  // namespace

std::vector<KeptNeeds> NeedsOfKept(std::span<const Program* const> programs,
                                   const StepOrder& order) {
  std::vector<KeptNeeds> all(programs.size());
  for (const std::string& name : order.kept) {
    const std::vector<KeptNeed> needs = NeedsOf(name, programs, order.runs);
    for (size_t p = 0; p < programs.size(); ++p) all[p].emplace(name, needs[p]);
  }
  return all;
}

}  // namespace plimsoll::memory
