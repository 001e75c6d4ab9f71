#include "trainer/step/carried_state.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/axes.h"
#include "graph/builder.h"
#include "ops/collectives/collective.h"
#include "ops/data_movement/copy.h"
#include "parallel/zero_shards.h"
#include "runtime/state_reads.h"

namespace plimsoll::trainer {

using graph::Program;
using graph::Tensor;
using graph::Value;

std::vector<const Tensor*> CarriedState(std::span<const Program* const> step,
                                        std::span<const std::string> left_out) {
  std::vector<const Tensor*> state;
  std::set<std::string> names(left_out.begin(), left_out.end());
  for (const Program* program : step) {
    for (const Tensor& tensor : program->tensors()) {
      if (graph::OutlivesSteps(tensor) && names.insert(tensor.name).second) {
        state.push_back(&tensor);
      }
    }
  }
  return state;
}

std::vector<std::string> OwnStates(std::span<const Program* const> step) {
  std::set<std::string> names;
  for (const Program* program : step) {
    for (const Tensor& tensor : program->tensors()) {
      if (graph::IsPending(tensor) && tensor.merge->ranks == graph::OverRanks::kOwn) {
        names.insert(tensor.owner->name);
      }
    }
  }
  return {names.begin(), names.end()};
}

namespace {

// A group may hold 1/kGroups of all bytes, even if that exceeds snapshot_group_bytes. So there are
// at most about 2 × kGroups groups. This limit matters because a recorded step has a wait node for
// each group, even in steps without a snapshot.
constexpr int64_t kGroups = 64;

// Maps a tensor that the step changes to the number of nodes before the first node that changes it.
std::unordered_map<std::string, int64_t> FirstChanges(std::span<const Program* const> step) {
  std::unordered_map<std::string, int64_t> first;
  int64_t at = 0;
  for (const Program* program : step) {
    for (const graph::Node& node : program->nodes()) {
      for (const graph::TensorId id : runtime::StateChangedBy(*program, node)) {
        first.try_emplace(program->tensor(id).name, at);
      }
      ++at;
    }
  }
  return first;
}

struct Copied {
  const Tensor* tensor;
  bool in_parts;   // whether each rank copies only its part
  int64_t bytes;   // size of the copy in bytes
  size_t number;   // index in CarriedState()
  int64_t change;  // the tensor's value in FirstChanges()
};

// Groups the tensors to copy, in the order in which the step changes them. Within a group, tensors
// keep the order of CarriedState(): neighbours are then adjacent in memory and are copied at once.
std::vector<std::vector<Copied>> GroupsToCopy(std::span<const Program* const> step,
                                              const CompileOptions& options) {
  const std::unordered_map<std::string, int64_t> first = FirstChanges(step);
  const std::vector<std::string> own = OwnStates(step);
  const int64_t ranks = options.mesh.ranks(kDataAxis);
  std::vector<Copied> all;
  int64_t bytes = 0;
  for (const Tensor* tensor : CarriedState(step, options.KeptElsewhere())) {
    const bool alike = std::ranges::find(own, tensor->name) == own.end();
    const bool in_parts = alike && parallel::IsDivided(tensor->type.shape, ranks);
    const auto change = first.find(tensor->name);
    all.push_back({tensor, in_parts, tensor->bytes() / (in_parts ? ranks : 1), all.size(),
                   change == first.end() ? std::numeric_limits<int64_t>::max() : change->second});
    bytes += all.back().bytes;
  }
  std::ranges::stable_sort(all, {}, &Copied::change);
  const int64_t most = std::max(options.snapshot_group_bytes, bytes / kGroups);
  std::vector<std::vector<Copied>> groups;
  int64_t room = 0;
  for (const Copied& copied : all) {
    if (groups.empty() || copied.bytes > room) {
      groups.emplace_back();
      room = most;
    }
    groups.back().push_back(copied);
    room -= copied.bytes;
  }
  for (std::vector<Copied>& group : groups) std::ranges::sort(group, {}, &Copied::number);
  return groups;
}

}  // namespace

std::unique_ptr<Program> CopyCarriedState(std::span<const Program* const> step,
                                          const CompileOptions& options) {
  const bool gpu = options.device == runtime::DeviceKind::kCuda;
  auto program = std::make_unique<Program>("snapshot");
  graph::Builder g(*program);
  g.set_made_by("snapshot");
  for (const std::vector<Copied>& group : GroupsToCopy(step, options)) {
    std::vector<std::pair<Value, Value>> copies;  // pairs of destination and source
    for (const auto& [tensor, in_parts, bytes, number, change] : group) {
      g.set_scope(tensor->name);
      Value from = g.Persistent(tensor->name, tensor->role, tensor->type, tensor->owner);
      program->mutable_tensor(from).place = tensor->place;
      program->mutable_tensor(from).names_crc = tensor->names_crc;
      if (in_parts) {
        const graph::Shape part =
            parallel::PartOf(tensor->type.shape, options.mesh.ranks(kDataAxis));
        from = ops::OwnPart(g, from, kDataAxis, part, "own");
      }
      const graph::TensorType type = program->tensor(from).type;
      const Value to = g.Persistent(CopyName(tensor->name), graph::Role::kSnapshot, type);
      program->mutable_tensor(to).place = gpu ? graph::Place::kHost : graph::Place::kDevice;
      g.EmitInto({to}, "copy_start", {from});
      copies.push_back({to, from});
    }
    for (const auto& [to, from] : copies) {
      g.set_scope(program->tensor(to).name);
      ops::CopyDone(g, to, from, "done");
    }
  }
  return program;
}

std::string CopyName(const std::string& tensor) { return tensor + ".snapshot"; }

}  // namespace plimsoll::trainer
