#include "graph/phase_cut.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/micro_steps.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "graph/verifier.h"

namespace plimsoll::graph {
namespace {

// Calls of(id) for the tensor and, if it is a view, for all its bases.
template <typename Of>
void ForBases(const Program& program, TensorId id, Of of) {
  while (id != kNoTensor) {
    of(id);
    const std::optional<Alias>& alias = program.tensor(id).alias;
    id = alias ? alias->base : kNoTensor;
  }
}

template <typename Of>
void ForArguments(const Node& node, Of of) {
  for (const TensorId id : Present(node.inputs)) of(id);
  for (const TensorId id : Present(node.outputs)) of(id);
  if (node.workspace != kNoTensor) of(node.workspace);
}

class PhaseCutter {
 public:
  PhaseCutter(const Program& program, const PhaseCutOptions& options)
      : whole_(program), options_(options), writers_(program.tensors().size(), kNobody) {
    forward_end_ = options.forward_apart ? ForwardEnd(program) : 0;
    update_ = FirstUpdate(program);
  }

  PhasePrograms Run() {
    CheckPhases();
    CarryBetween();
    NameOwn();
    return {Part("forward", 0, forward_end_), Part("backward", forward_end_, update_),
            Part("update", update_, whole_.nodes().size()), NamesOfKept()};
  }

  std::vector<TensorId> KeptOfSlot() {
    CarryBetween();
    std::vector<TensorId> ids;
    for (const auto& [id, of_slot] : kept_) {
      if (of_slot && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    }
    return ids;
  }

 private:
  static constexpr int kNobody = -1;

  int PhaseAt(size_t node) const { return node < forward_end_ ? 0 : node < update_ ? 1 : 2; }

  [[noreturn]] void Fail(size_t node, const std::string& what) const {
    throw InternalError("program '" + whole_.name() +
                        "' cannot be cut into phases: " + Describe(whole_, node) + " " + what);
  }

  void CheckPhases() const {
    for (size_t n = 0; n < whole_.nodes().size(); ++n) {
      const Node& node = whole_.nodes()[n];
      const bool forward = node.phase == Phase::kForward;
      if (options_.forward_apart && forward && n >= forward_end_) {
        Fail(n, "follows the backward pass");
      }
      if (node.phase != Phase::kUpdate && n >= update_) Fail(n, "follows the update's first node");
      if (node.workspace != kNoTensor) Fail(n, "has scratch memory already");
    }
  }

  // Makes temporaries carried that one phase writes and a later one reads. Views of them are
  // declared again and need no node.
  void CarryBetween() {
    for (size_t n = 0; n < whole_.nodes().size(); ++n) {
      const Node& node = whole_.nodes()[n];
      const int phase = PhaseAt(n);
      for (const TensorId id : Present(node.inputs)) {
        const TensorId root = whole_.Root(id);
        const int writer = writers_[static_cast<size_t>(root)];
        if (writer == kNobody || writer == phase) continue;
        if (IsDone(node.op->transfer) && id == node.inputs.front()) {
          Fail(n, "ends a transfer of '" + whole_.tensor(id).name + "' that begins before it");
        }
        if (whole_.tensor(root).persistent) continue;
        kept_.push_back({root, writer == 0 && phase == 1});
      }
      for (const TensorId id : Present(node.outputs)) {
        if (!node.op->view) writers_[static_cast<size_t>(whole_.Root(id))] = phase;
      }
    }
  }

  void NameOwn() {
    cut_ = whole_;
    const auto own = [&](TensorId id) {
      const std::string name = OfMicroStep(options_.slot, whole_.tensor(id).name);
      if (cut_.tensor(id).name != name) cut_.Rename(id, name);
    };
    for (const TensorId id : TensorIds(whole_)) {
      const Tensor& tensor = whole_.tensor(id);
      if (tensor.persistent && options_.own(tensor)) own(id);
    }
    for (const auto& [id, of_slot] : kept_) {
      cut_.mutable_tensor(id).persistent = true;
      if (of_slot) own(id);
    }
  }

  Program Part(std::string_view phase, size_t begin, size_t end) const {
    Program part = cut_;
    part.set_name(OfMicroStep(options_.slot, whole_.name() + "." + std::string(phase)));
    std::vector<Node>& nodes = part.mutable_nodes();
    nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(end), nodes.end());
    nodes.erase(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(begin));
    DropUnmentioned(part);
    return part;
  }

  std::vector<std::string> NamesOfKept() const {
    std::vector<std::string> names;
    for (const auto& [id, of_slot] : kept_) {
      if (of_slot) names.push_back(cut_.tensor(id).name);
    }
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    return names;
  }

  struct Kept {
    TensorId id;
    bool of_slot;  // whether the tensor is carried from the forward to the backward pass, not to
                   // the update
  };

  const Program& whole_;
  const PhaseCutOptions& options_;
  size_t forward_end_ = 0, update_ = 0;
  std::vector<int>
      writers_;  // by tensor that owns memory: the phase of the last node so far that wrote it
  std::vector<Kept> kept_;
  Program cut_;  // the complete program, with the tensors carried between phases
};

}  // namespace

PhasePrograms CutPhases(const Program& program, const PhaseCutOptions& options) {
  return PhaseCutter(program, options).Run();
}

std::vector<TensorId> KeptForBackward(const Program& program) {
  const PhaseCutOptions options;
  return PhaseCutter(program, options).KeptOfSlot();
}

void DropUnmentioned(Program& program) {
  std::vector<bool> mentioned(program.tensors().size(), false);
  for (const Node& node : program.nodes()) {
    ForArguments(node, [&](TensorId id) {
      ForBases(program, id, [&](TensorId base) { mentioned[static_cast<size_t>(base)] = true; });
    });
  }
  for (const TensorId id : TensorIds(program)) {
    if (!mentioned[static_cast<size_t>(id)]) program.mutable_tensor(id).persistent = false;
  }
  program.DropUnusedTensors();
}

}  // namespace plimsoll::graph
