#include "parallel/zero_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/bytes.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "ops/data_movement/views.h"
#include "ops/optimizer/optimizer.h"
#include "parallel/split_norm.h"
#include "parallel/zero_shards.h"

namespace plimsoll::parallel {
namespace {

using graph::Builder;
using graph::Carry;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::Shape;
using graph::Tensor;
using graph::TensorId;
using graph::TensorType;

// The op whose first result (not its state) is needed unsharded (ops/optimizer/muon.h).
constexpr std::string_view kMomentum = "muon_momentum";

struct Divided {
  TensorId weight, gradient;
  std::string name;
  Shape whole, part;
  std::optional<size_t> written = {};  // the index of the last node that writes the gradient
};

class Divider {
 public:
  Divider(Program& program, const ZeroStateOptions& options)
      : program_(program), options_(options), builder_(program) {
    builder_.set_made_by("zero_state");
  }

  graph::PassResult Run() {
    const size_t update = graph::FirstUpdate(program_);
    next_key_ = builder_.NextKey();  // larger than every key given before
    const std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    FindDivided(nodes);
    const bool updates = update < nodes.size();
    if (updates) TakeOwnWeights();
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node node = nodes[n];
      builder_.set_phase(node.phase);
      if (n == update && options_.carry == Carry::kNone) TakeOwnGradients();
      if (node.phase == Phase::kUpdate && IsSliceOfGathered(node)) {
        SliceGathered(node);
        continue;
      }
      if (node.phase == Phase::kUpdate) Divide(node);
      const bool gathers = node.op->name == kMomentum && divided_momentum_;
      program_.mutable_nodes().push_back(node);
      if (gathers) GatherMomentum(node);
      if (options_.carry == Carry::kNone) continue;
      for (const Divided& divided : divided_) {
        if (divided.written == n) CarryPart(divided);
      }
    }
    if (divided_.empty()) return {false, "no parameter is divided"};
    if (!gathered_.empty()) program_.DropUnusedTensors();
    const std::string state =
        fmt::format("{} of optimizer state instead of {}", FormatBytes(state_bytes_),
                    FormatBytes(whole_state_bytes_));
    return {updates || options_.carry != Carry::kNone,
            fmt::format("{} divided, {}", Counted(divided_.size(), "parameter"),
                        updates ? state : "gradients carried in parts")};
  }

 private:
  void FindDivided(const std::vector<Node>& nodes) {
    for (const auto& [parameter, gradient] : graph::GradientsOf(program_)) {
      const Tensor& tensor = program_.tensor(parameter);
      const Shape& shape = tensor.type.shape;
      if (!IsDivided(shape, options_.ranks)) continue;
      divided_.push_back({parameter, gradient, tensor.name, shape, PartOf(shape, options_.ranks)});
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (Divided& divided : divided_) {
        if (std::ranges::count(nodes[n].outputs, divided.gradient) > 0) divided.written = n;
      }
    }
  }

  // Makes persistent views of the shards of carried weights. The update writes through them; as
  // persistent tensors they count as results.
  void TakeOwnWeights() {
    for (const Divided& divided : divided_) {
      builder_.set_scope(divided.name);
      const TensorId own = ops::OwnPart(builder_, divided.weight, kDataAxis, divided.part, "own");
      program_.mutable_tensor(own).role = Role::kParameter;
      program_.mutable_tensor(own).persistent = true;
      instead_[divided.weight] = own;
    }
  }

  TensorId OwnGradient(const Divided& divided) {
    builder_.set_scope(divided.name);
    const TensorId own =
        ops::OwnPart(builder_, divided.gradient, kDataAxis, divided.part, "grad.own");
    program_.mutable_tensor(own).role = Role::kGradient;
    return own;
  }

  void TakeOwnGradients() {
    for (const Divided& divided : divided_) {
      const TensorId own = OwnGradient(divided);
      instead_[divided.gradient] = own;
      parts_.insert(own);
    }
  }

  void CarryPart(const Divided& divided) {
    const std::string name = program_.tensor(divided.gradient).name;
    program_.Rename(divided.gradient, name + ".micro");
    const TensorType type = {program_.tensor(divided.gradient).type.dtype, divided.part};
    const TensorId carried =
        builder_.Persistent(name, Role::kGradient, type,
                            std::exchange(program_.mutable_tensor(divided.gradient).owner, {}));
    const TensorId own = OwnGradient(divided);
    if (options_.carry == Carry::kWrite) {
      builder_.EmitInto({carried}, "scale", {own}, {{"factor", 1.0}});
    } else if (type.dtype == graph::DType::kBFloat16) {
      builder_.EmitInto({carried}, "add_rounded", {carried, own, Rng()}, {{"key", next_key_++}});
    } else {
      builder_.EmitInto({carried}, "add", {carried, own});
    }
    instead_[divided.gradient] = carried;
    parts_.insert(carried);
  }

  // Changes a node of the update to work on shards.
  void Divide(Node& node) {
    const bool momentum = node.op->name == kMomentum;
    const auto found = std::find_if(divided_.begin(), divided_.end(), [&](const Divided& divided) {
      const TensorId read = momentum ? divided.gradient : divided.weight;
      return std::ranges::find(node.inputs, read) != node.inputs.end();
    });
    divided_momentum_ = momentum && found != divided_.end();
    if (found != divided_.end()) {
      DivideState(node, *found);
      DrawOwnNumbers(node);
      if (!momentum) TakeOwnStep(node, *found);
    }
    if (divided_momentum_) {
      gathered_[node.outputs[0]] = found->whole;
      program_.mutable_tensor(node.outputs[0]).type.shape = found->part;
    }
    for (TensorId& id : node.inputs) id = graph::Substitute(instead_, id);
    for (TensorId& id : node.outputs) id = graph::Substitute(instead_, id);
    builder_.set_scope("");
    if (node.op->name == "global_norm") {
      GatherSplitNorm(builder_, node, parts_, kDataAxis, options_.ranks);
    }
  }

  // Shards the state that is updated together with the weight: moments, their scales, remainder or
  // master.
  void DivideState(const Node& node, const Divided& divided) {
    for (TensorId id : graph::Present(node.outputs)) {
      const bool in_place = std::ranges::find(node.inputs, id) != node.inputs.end();
      if (!in_place || id == divided.weight) continue;
      Tensor& state = program_.mutable_tensor(id);
      whole_state_bytes_ += state.bytes();
      const bool scales = state.type.shape != divided.whole;
      state.type.shape = scales ? ops::ScalesShape(divided.part) : divided.part;
      state_bytes_ += state.bytes();
    }
  }

  // Gathers Muon's momentum, of which each rank has updated a shard: every rank orthogonalizes the
  // unsharded matrix.
  void GatherMomentum(const Node& node) {
    const TensorId part = node.outputs[0];
    builder_.set_scope(node.scope);
    instead_[part] = ops::AllGather(builder_, part, kDataAxis, gathered_.at(part),
                                    builder_.NameWithin(part) + ".gathered");
  }

  bool IsSliceOfGathered(const Node& node) const {
    return node.op->name == "slice" && gathered_.contains(node.inputs[0]);
  }

  // Takes a slice of the gathered momentum, if several stacked matrices are one parameter.
  void SliceGathered(const Node& node) {
    const Tensor slice = program_.tensor(node.outputs[0]);
    const int64_t first = slice.alias->byte_offset / graph::ByteSize(slice.type.dtype);
    builder_.set_scope(node.scope);
    instead_[node.outputs[0]] =
        ops::Slice(builder_, instead_.at(node.inputs[0]), first, slice.type.shape, "muon.matrix");
  }

  // If the update of a shard reads an unsharded tensor that is no gradient (Muon's step), replaces
  // that tensor by this rank's shard.
  void TakeOwnStep(Node& node, const Divided& divided) {
    for (TensorId& id : node.inputs) {
      if (id == graph::kNoTensor || id == divided.weight || id == divided.gradient) continue;
      const Tensor& tensor = program_.tensor(id);
      if (tensor.role != Role::kActivation || tensor.type.shape != divided.whole) continue;
      builder_.set_scope(node.scope);
      id = ops::OwnPart(builder_, id, kDataAxis, divided.part, "muon.own");
    }
  }

  void DrawOwnNumbers(Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.op->inputs[i].name != "rng") continue;
      node.inputs[i] = Rng();
    }
  }

  // The slot of random numbers that differ between data ranks.
  TensorId Rng() { return builder_.Carried("rng", Role::kInput, {graph::DType::kInt32, {2}}); }

  Program& program_;
  const ZeroStateOptions& options_;
  Builder builder_;
  std::vector<Divided> divided_;
  // Maps a weight or gradient to the tensor that the update uses instead.
  std::map<TensorId, TensorId> instead_;
  std::set<TensorId> parts_;            // shards of gradients
  bool divided_momentum_ = false;       // whether the previous node of the update was a sharded
                                        // momentum
  std::map<TensorId, Shape> gathered_;  // maps a sharded momentum to its unsharded shape
  int64_t next_key_ = 0;
  int64_t state_bytes_ = 0, whole_state_bytes_ = 0;
};

}  // namespace

graph::PassResult ZeroState::Run(Program& program) { return Divider(program, options_).Run(); }

}  // namespace plimsoll::parallel
