// Part of trainer/step/session.h: the state that a snapshot saves, as the arena holds it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/axes.h"
#include "base/error.h"
#include "parallel/zero_shards.h"
#include "trainer/step/carried_state.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
std::vector<StateTensor> Session::State() const {
  const std::vector<const graph::Program*> step = StepProgramsOf(compiled_);
  const std::vector<const graph::Tensor*> found =
      CarriedState(step, compiled_.options.KeptElsewhere());
  std::map<std::string_view, const graph::Tensor*> by_name;
  for (const graph::Tensor* tensor : found) by_name[tensor->name] = tensor;
  // Scales belong to 8-bit codes, which may belong to a parameter: follow the owners up to the last
  // owner.
  const auto last_owner = [&](const graph::Tensor* tensor) {
    const std::string* name = &tensor->name;
    for (auto at = by_name.find(*name); at != by_name.end() && at->second->owner;
         at = by_name.find(*name)) {
      name = &at->second->owner->name;
    }
    return *name;
  };
  const std::vector<std::string> own = OwnStates(step);
  const int64_t ranks = position_.ranks(kDataAxis);
  std::vector<StateTensor> state;
  for (const graph::Tensor* tensor : found) {
    const std::string parameter = last_owner(tensor);
    const graph::Shape* const whole = FindDivided(parameter);
    StateTensor entry{.name = tensor->name,
                      .owner = tensor->owner,
                      .names_crc = tensor->names_crc,
                      .parameter = parameter,
                      .dtype = tensor->type.dtype,
                      .shape = {}};
    entry.split = FindSplit(parameter) != nullptr;
    const graph::Shape& shape = tensor->type.shape;
    if (std::ranges::find(own, tensor->name) != own.end()) {
      // The tensors of all ranks are concatenated.
      entry.shape = {ranks, shape.elements()};
      entry.elements = shape.elements();
      entry.begin = position_.at(kDataAxis) * entry.elements;
      entry.divided = true;
    } else if (whole == nullptr) {
      entry.shape = shape;
      entry.elements = shape.elements();
    } else {
      // This rank may hold the unsharded weight. Even then it saves only its own shard; other ranks
      // save the other shards.
      const bool is_whole = tensor->name == parameter && shape == *whole;
      entry.elements = is_whole ? shape.elements() / ranks : shape.elements();
      const int64_t all = entry.elements * ranks;
      entry.shape = all == whole->elements() ? *whole : graph::Shape{all};
      entry.begin = position_.at(kDataAxis) * entry.elements;
      entry.divided = true;
    }
    const auto owner = by_name.find(parameter);
    entry.of_parameter = owner != by_name.end() && owner->second->role == graph::Role::kParameter;
    entry.saved = SavedOf(entry);
    state.push_back(std::move(entry));
  }
  return state;
}

StateTensor::Saved Session::SavedOf(const StateTensor& tensor) const {
  const int64_t ranks = position_.ranks(kDataAxis);
  StateTensor::Saved saved{tensor.begin, tensor.elements, 1};
  if (tensor.divided) {
    saved.parts = ranks;
  } else if (parallel::IsDivided(tensor.shape, ranks)) {
    const int64_t part = tensor.elements / ranks;
    saved = {position_.at(kDataAxis) * part, part, ranks};
  }
  // If all ranks of an axis have equal copies, the first rank saves them.
  for (const MeshAxis& axis : position_.mesh.axes()) {
    const bool in_parts = (axis.name == kDataAxis && saved.parts > 1) ||
                          (axis.name == kTensorAxis && tensor.split) ||
                          (axis.name == kPipelineAxis && tensor.of_parameter &&
                           !compiled_.tables.contains(tensor.parameter));
    if (!in_parts && position_.at(axis.name) > 0) saved.elements = 0;
  }
  return saved;
}

Session::Where Session::FindState(const StateTensor& tensor, int64_t at, size_t bytes) const {
  Where where = Find(tensor.name);
  if (where.exists && tensor.divided) where = OwnPart(where, tensor.shape);
  const auto has = static_cast<int64_t>(where.bytes.size());
  if (!where.exists || at < 0 || static_cast<int64_t>(bytes) > has - at) {
    throw InternalError(fmt::format("'{}' has no {} bytes from {} on", tensor.name, bytes, at));
  }
  where.bytes = where.bytes.subspan(static_cast<size_t>(at), bytes);
  return where;
}

void Session::ReadState(const StateTensor& tensor, int64_t at, std::span<std::byte> bytes) const {
  Get(FindState(tensor, at, bytes.size()), bytes.data());
}

void Session::CopyState() { executors_[compiled_.step.snapshot]->Run(); }

void Session::AwaitCopy() const { executors_[compiled_.step.snapshot]->Await(); }

std::span<const std::byte> Session::Copied(const StateTensor& tensor) const {
  const Where where = Find(CopyName(tensor.name));
  if (!where.exists) throw InternalError("'" + tensor.name + "' is not copied");
  return where.bytes;  // the copy is in host memory
}

void Session::WriteState(const StateTensor& tensor, int64_t at, std::span<const std::byte> bytes) {
  const Where where = FindState(tensor, at, bytes.size());
  device_.Store(where.bytes.data(), bytes);
  in_parts_ = compiled_.step.gather >= 0;  // the other shards of a sharded weight are stale now
}

}  // namespace plimsoll::trainer
