#include "trainer/step/slot_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/micro_steps.h"
#include "parallel/cut_stage.h"

namespace plimsoll::trainer {
namespace {

using graph::Program;
using graph::Tensor;

// The slot tensors whose earlier values a program reads, and those that it writes.
struct SlotUses {
  TensorNames reads, writes;
};

class SlotReplay {
 public:
  SlotReplay(const ProgramList& programs, std::span<const StepEntry> entries,
             const TensorNames& kept, const TensorNames& shared)
      : entries_(entries), kept_(kept), shared_(shared) {
    for (const auto& program : programs) uses_.push_back(UsesOf(*program));
    for (const StepEntry& run : entries_) {
      for (const std::string& name : UsesOf(run).reads) ++unread_[{name, run.micro_step}];
    }
  }

  void Run() {
    for (const StepEntry& run : entries_) {
      if (run.action == StepAction::kUpdate) sending_.clear();
      if (!run.sends.empty()) sending_.erase(graph::OfMicroStep(run.slot, run.sends));
      if (!run.receives.empty()) {
        Put(run, graph::OfMicroStep(run.slot, run.receives), "receives");
      }
      if (BeginsMicroSteps(run.action)) {
        for (const std::string& name : inputs_[run.slot]) Put(run, name, "is given");
      }
      for (const std::string& name : UsesOf(run).reads) Take(run, name);
      for (const std::string& name : UsesOf(run).writes) Put(run, name, "writes");
      if (!run.sends.empty()) Send(run, graph::OfMicroStep(run.slot, run.sends));
    }
  }

 private:
  const SlotUses& UsesOf(const StepEntry& run) const {
    return uses_.at(static_cast<size_t>(run.program));
  }

  SlotUses UsesOf(const Program& program) {
    for (const Tensor& tensor : program.tensors()) {
      if (tensor.role == graph::Role::kInput && IsOfSlot(tensor)) {
        inputs_[SlotOf(tensor.name)].insert(tensor.name);
      }
    }
    SlotUses uses;
    const auto each = [&](const std::vector<graph::TensorId>& ids, auto of) {
      for (const graph::TensorId id : ids) {
        if (id == graph::kNoTensor) continue;
        const Tensor& root = program.tensor(program.Root(id));
        if (IsOfSlot(root)) of(root.name);
      }
    };
    for (const graph::Node& node : program.nodes()) {
      each(node.inputs, [&](const std::string& name) {
        if (!uses.writes.contains(name)) uses.reads.insert(name);
      });
      if (node.op->view) continue;
      each(node.outputs, [&](const std::string& name) { uses.writes.insert(name); });
    }
    return uses;
  }

  static int64_t SlotOf(std::string_view name) { return graph::ParseMicroStepName(name).number; }

  bool IsOfSlot(const Tensor& tensor) const {
    if (!tensor.persistent) return false;
    if (kept_.contains(tensor.name)) return true;
    if (tensor.role == graph::Role::kInput) return !shared_.contains(tensor.name);
    const std::string_view name = graph::ParseMicroStepName(tensor.name).name;
    return std::ranges::find(parallel::kStageTensors, name) !=
           std::ranges::end(parallel::kStageTensors);
  }

  [[noreturn]] static void Fail(const StepEntry& run, const std::string& name,
                                const std::string& what) {
    static constexpr const char* kPasses[] = {"passes", "forward pass", "backward pass", "update"};
    throw InternalError(fmt::format("slots: the {} of micro-batch {} in slot {} {}",
                                    kPasses[static_cast<size_t>(run.action)], run.micro_step,
                                    run.slot, fmt::format(fmt::runtime(what), name)));
  }

  void CheckSlot(const StepEntry& run, const std::string& name) const {
    if (SlotOf(name) != run.slot) Fail(run, name, "touches '{}', of another slot");
  }

  // Gives a tensor a new value.
  void Put(const StepEntry& run, const std::string& name, const std::string& how) {
    CheckSlot(run, name);
    if (sending_.contains(name)) Fail(run, name, how + " '{}' while it is being sent");
    const auto [holds, fresh] = holds_.try_emplace(name, run.micro_step);
    if (!fresh && holds->second != run.micro_step && unread_[{name, holds->second}] > 0) {
      Fail(run, name,
           how + " '{}', which micro-batch " + std::to_string(holds->second) + " has yet to read");
    }
    holds->second = run.micro_step;
  }

  void CheckHolds(const StepEntry& run, const std::string& name, const std::string& how) const {
    CheckSlot(run, name);
    const auto holds = holds_.find(name);
    if (holds == holds_.end()) Fail(run, name, how + " '{}', which nothing has written");
    if (holds->second != run.micro_step) {
      Fail(run, name, how + " '{}' of micro-batch " + std::to_string(holds->second));
    }
  }

  void Take(const StepEntry& run, const std::string& name) {
    CheckHolds(run, name, "reads");
    --unread_[{name, run.micro_step}];
  }

  void Send(const StepEntry& run, const std::string& name) {
    CheckHolds(run, name, "sends");
    sending_.insert(name);
  }

  const std::span<const StepEntry> entries_;
  const TensorNames& kept_;
  const TensorNames& shared_;
  std::vector<SlotUses> uses_;             // for each program, the tensors that it reads and writes
  std::map<int64_t, TensorNames> inputs_;  // maps a slot to the names of its data inputs
  // Maps a tensor's name and a micro-batch to the number of readers still to come.
  std::map<std::pair<std::string, int64_t>, int> unread_;
  // Maps a tensor's name to the micro-batch whose value the tensor holds.
  std::map<std::string, int64_t, std::less<>> holds_;
  TensorNames sending_;
};

}  // namespace

void CheckSlots(const ProgramList& programs, std::span<const StepEntry> entries,
                const TensorNames& kept, const TensorNames& shared) {
  SlotReplay(programs, entries, kept, shared).Run();
}

}  // namespace plimsoll::trainer
