#include "graph/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace plimsoll::graph {
namespace {

constexpr std::array<std::string_view, 4> kPhaseNames = {"forward", "backward", "recompute",
                                                         "update"};

}  // namespace

std::string_view Name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::optional<Phase> ParsePhase(std::string_view name) {
  for (size_t i = 0; i < kPhaseNames.size(); ++i) {
    if (kPhaseNames[i] == name) return static_cast<Phase>(i);
  }
  return std::nullopt;
}

TensorId Program::AddTensor(Tensor tensor) {
  const TensorId id = static_cast<TensorId>(tensors_.size());
  if (tensor.alias && (tensor.alias->base < 0 || tensor.alias->base >= id)) {
    throw InternalError("tensor '" + tensor.name + "' is an alias of nothing");
  }
  if (Find(tensor.name) != kNoTensor) {
    throw InternalError("tensor '" + tensor.name + "' exists already");
  }
  names_.Insert(tensor.name, id);
#ifdef __SANITIZE_ADDRESS__
  // In programs as small as those of tests, every addition moves the tensors, so that the use of an
  // outdated reference is detected.
  constexpr size_t kMost = 100;
  if (tensors_.size() < kMost) tensors_.shrink_to_fit();
#endif
  tensors_.push_back(std::move(tensor));
  return id;
}

void Program::Rename(TensorId id, std::string name) {
  if (tensors_[id].name == name) return;
  if (Find(name) != kNoTensor) throw InternalError("tensor '" + name + "' exists already");
  names_.Erase(tensors_[id].name, tensors_);
  names_.Insert(name, id);
  if (tensors_[id].persistent) {
    for (Tensor& tensor : tensors_) {
      if (tensor.owner && tensor.owner->name == tensors_[id].name) tensor.owner->name = name;
    }
  }
  tensors_[id].name = std::move(name);
}

TensorId Program::Find(std::string_view name) const { return names_.Find(name, tensors_); }

TensorId Program::Require(std::string_view name) const {
  const TensorId id = Find(name);
  if (id == kNoTensor) {
    throw InternalError("program '" + name_ + "' has no tensor '" + std::string(name) + "'");
  }
  return id;
}

std::string Program::FreshName(std::string_view stem) const {
  const auto numbered = [stem](int64_t i) {
    return i == 1 ? std::string(stem) : std::string(stem) + "." + std::to_string(i);
  };
  const auto taken = [&](int64_t i) { return Find(numbered(i)) != kNoTensor; };
  // A stem can have thousands of numbers, so a binary search finds a free one.
  int64_t last_taken = 0, free = 1;
  while (taken(free)) last_taken = std::exchange(free, 2 * free);
  while (free - last_taken > 1) {
    const int64_t middle = (last_taken + free) / 2;
    (taken(middle) ? last_taken : free) = middle;
  }
  return numbered(free);
}

TensorId Program::Root(TensorId id) const {
  while (tensors_[id].alias) id = tensors_[id].alias->base;
  return id;
}

void Program::DropUnusedTensors() {
  std::vector<bool> used(tensors_.size(), false);
  auto use = [&](TensorId id) {
    while (id != kNoTensor && !used[id]) {
      used[id] = true;
      id = tensors_[id].alias ? tensors_[id].alias->base : kNoTensor;
    }
  };
  for (const Node& node : nodes_) {
    for (TensorId id : node.inputs) use(id);
    for (TensorId id : node.outputs) use(id);
    use(node.workspace);
  }
  for (size_t id = 0; id < tensors_.size(); ++id) {
    if (tensors_[id].persistent) use(static_cast<TensorId>(id));
  }

  if (std::find(used.begin(), used.end(), false) == used.end()) return;
  std::vector<TensorId> renumbered(tensors_.size(), kNoTensor);
  size_t kept = 0;
  for (size_t id = 0; id < tensors_.size(); ++id) {
    if (!used[id]) continue;
    Tensor& tensor = tensors_[id];
    if (tensor.alias) tensor.alias->base = renumbered[tensor.alias->base];
    renumbered[id] = static_cast<TensorId>(kept);
    if (kept != id) tensors_[kept] = std::move(tensor);
    ++kept;
  }
  tensors_.resize(kept);
  names_.Renumber(renumbered);
  auto renumber = [&](TensorId& id) {
    if (id != kNoTensor) id = renumbered[id];
  };
  for (Node& node : nodes_) {
    for (TensorId& id : node.inputs) renumber(id);
    for (TensorId& id : node.outputs) renumber(id);
    renumber(node.workspace);
  }
}

Program::Call Program::CallOf(const Node& node) const {
  Call call;
  call.node = &node;
  call.inputs.reserve(node.inputs.size());
  call.outputs.reserve(node.outputs.size());
  auto type = [&](TensorId id) { return id == kNoTensor ? nullptr : &tensors_[id].type; };
  for (TensorId id : node.inputs) call.inputs.push_back(type(id));
  for (TensorId id : node.outputs) call.outputs.push_back(type(id));
  return call;
}

}  // namespace plimsoll::graph
