#include "models/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/objective.h"
#include "ops/attention/attention.h"
#include "ops/attention/rotary.h"
#include "ops/data_movement/views.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/drop_path.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/gelu.h"
#include "ops/elementwise/silu.h"
#include "ops/linear/linear.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/norms/layer_norm.h"
#include "ops/norms/rms_norm.h"
#include "ops/norms/spectral_norm.h"
#include "ops/tokens/embedding.h"

namespace plimsoll::models {

using graph::DType;
using graph::kNoTensor;
using graph::Role;
using graph::Scope;
using graph::Shape;
using graph::Value;

Value Layers::Parameter(std::string_view name, Shape shape, Initializer init) {
  std::string full = builder_.Qualified(name);
  const bool first = builder_.program().Find(full) == kNoTensor;
  if (first) parameters_.push_back({full, shape, init});
  return Declared(std::move(full), Role::kParameter, {DType::kFloat32, shape});
}

Value Layers::State(StateInfo state) {
  state.name = builder_.Qualified(state.name);
  const Value value = Declared(state.name, Role::kState, {DType::kFloat32, state.shape});
  const auto known = std::ranges::find(states_, state.name, &StateInfo::name);
  if (known == states_.end()) {
    states_.push_back(std::move(state));
  } else if (*known != state) {
    throw InternalError("state '" + state.name +
                        "' is one thing at one use and another at another");
  }
  return value;
}

void Layers::DeclareSingular(Value parameter, Value u, Value v) {
  const graph::Program& program = builder_.program();
  if (program.tensor(parameter).role != Role::kParameter) {
    throw InternalError("a spectral norm of '" + program.tensor(parameter).name +
                        "', which is no parameter");
  }
  singular_states_.push_back(
      {program.tensor(parameter).name, program.tensor(u).name, program.tensor(v).name});
}

void Layers::UpdateState(Value state, FunctionRef<Value(Value)> next) {
  if (!training_) return;
  const std::string& name = builder_.program().tensor(state).name;
  const auto info = std::ranges::find(states_, name, &StateInfo::name);
  if (info == states_.end()) throw InternalError("'" + name + "' is updated, but is no state");
  auto update = std::ranges::find(state_updates_, name,
                                  [](const StateUpdate& known) { return known.state.name; });
  if (update == state_updates_.end()) {
    const Value pending =
        builder_.Persistent(graph::PendingName(name), Role::kPending, builder_.type(state));
    update = state_updates_.insert(update, {*info, pending, pending});
  }
  const graph::TensorType type = builder_.type(state);
  update->next = next(update->next);
  if (builder_.type(update->next) != type) {
    throw InternalError("state '" + info->name + "' is " + type.ToString() + ", its update " +
                        builder_.type(update->next).ToString());
  }
}

void Layers::MoveUpdatesToEnd() {
  if (state_updates_.empty()) return;
  const graph::Program& program = builder_.program();
  std::set<Value> read_late, read_early;  // memory that nodes behind, and others, read
  for (const StateUpdate& update : state_updates_) read_late.insert(program.Root(update.next));
  std::vector<graph::Node> nodes = std::exchange(builder_.program().mutable_nodes(), {});
  std::vector<bool> late(nodes.size(), false);
  for (size_t i = nodes.size(); i-- > 0;) {
    bool needed_late = false, needed_early = false;
    for (const Value id : nodes[i].outputs) {
      if (id == kNoTensor) continue;
      needed_late = needed_late || read_late.contains(program.Root(id));
      needed_early = needed_early || read_early.contains(program.Root(id));
    }
    late[i] = needed_late && !needed_early;
    for (const Value id : nodes[i].inputs) {
      if (id != kNoTensor) (late[i] ? read_late : read_early).insert(program.Root(id));
    }
  }
  for (const bool behind : {false, true}) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (late[i] == behind) {
        builder_.program().mutable_nodes().push_back(std::move(nodes[i]));
      }
    }
  }
}

Value Layers::Declared(std::string name, Role role, const graph::TensorType& type) {
  const Value found = builder_.program().Find(name);
  if (found == kNoTensor) return builder_.Persistent(std::move(name), role, type);
  const graph::Tensor& tensor = builder_.program().tensor(found);
  if (tensor.role != role || tensor.type != type) {
    throw InternalError(fmt::format("'{}' is {} at one use and {} at another", name,
                                    tensor.type.ToString(), type.ToString()));
  }
  return found;
}

Value Layers::Input(std::string_view name, DType dtype, Shape shape) {
  return Declared(std::string(name), Role::kInput, {dtype, shape});
}

Value Layers::Tokens(std::string_view name) {
  return Input(name, DType::kInt32, {batch_.batch, batch_.sequence});
}

Value Layers::Rng() { return Input("rng", DType::kInt32, {2}); }

Value Layers::TokenWeight() {
  return Input(graph::OfObjective(objective_, "token_weight"), DType::kFloat32, {});
}

Value Layers::SampleWeight() {
  return Input(graph::OfObjective(objective_, "sample_weight"), DType::kFloat32, {});
}

Value Linear(Layers& g, std::string_view name, Value x, int64_t outputs, LinearOptions options) {
  Value weight, bias = kNoTensor;
  {
    const Scope scope(g.builder(), name);
    weight = g.Parameter("weight", {outputs, g.shape(x).dim(-1)},
                         {Initializer::kNormal, options.init_std});
    if (options.bias) bias = g.Parameter("bias", {outputs}, {Initializer::kZeros});
  }
  return ops::Linear(g.builder(), x, weight, bias, name);
}

Value LayerNorm(Layers& g, std::string_view name, Value x, double eps) {
  Value weight, bias;
  {
    const Scope scope(g.builder(), name);
    weight = g.Parameter("weight", {g.shape(x).dim(-1)}, {Initializer::kOnes});
    bias = g.Parameter("bias", {g.shape(x).dim(-1)}, {Initializer::kZeros});
  }
  return ops::LayerNorm(g.builder(), x, weight, bias, eps, name);
}

Value RmsNorm(Layers& g, std::string_view name, Value x, double eps) {
  Value weight;
  {
    const Scope scope(g.builder(), name);
    weight = g.Parameter("weight", {g.shape(x).dim(-1)}, {Initializer::kOnes});
  }
  return ops::RmsNorm(g.builder(), x, weight, eps, name);
}

Value SpectralNorm(Layers& g, std::string_view name, Value weight) {
  graph::Builder& builder = g.builder();
  const Shape shape = g.shape(weight);
  const auto vector = [&](std::string_view which, Shape own) {
    const double equal = 1 / std::sqrt(static_cast<double>(own.elements()));
    return g.State({.name = fmt::format("{}.{}", name, which),
                    .shape = own,
                    .initial = static_cast<float>(equal),
                    .on_ranks = StateInfo::kAlike});
  };
  ops::SingularVectors vectors = {vector("u", {shape.dim(0)}),
                                  vector("v", Shape(shape.dims().subspan(1)))};
  g.DeclareSingular(weight, vectors.u, vectors.v);
  if (g.training()) {
    // From the states themselves, which the forward pass leaves alone, or from what an earlier call
    // has made of them: so all can be made again.
    ops::SingularVectors next;
    g.UpdateState(vectors.v, [&](Value now) {
      const bool first = builder.program().tensor(now).persistent;
      next = ops::PowerIteration(builder, weight, first ? vectors.v : now);
      return next.v;
    });
    g.UpdateState(vectors.u, [&](Value) { return next.u; });
    vectors = next;
  }
  return ops::SpectralNorm(builder, weight, vectors, name);
}

Value EmbeddingTable(Layers& g, std::string_view name, int64_t rows, int64_t width,
                     double init_std) {
  const Scope scope(g.builder(), name);
  return g.Parameter("weight", {rows, width}, {Initializer::kNormal, init_std});
}

Value Embedding(Layers& g, std::string_view name, Value tokens, Value table, Value position) {
  return ops::Embedding(g.builder(), tokens, table, position, name);
}

Value Rotary(Layers& g, Value qkv, HeadCounts counts, double theta,
             const std::optional<RopeScaling>& scaling) {
  ops::RotaryOptions options;
  options.heads = counts.heads;
  options.kv_heads = counts.kv_heads;
  options.theta = theta;
  if (scaling) {
    using Kind = ops::RotaryScaling::Kind;
    options.scaling = ops::RotaryScaling{
        scaling->type == RopeScaling::Type::kLinear ? Kind::kLinear : Kind::kLlama3,
        scaling->factor, scaling->low_freq_factor, scaling->high_freq_factor,
        scaling->original_sequence};
  }
  return ops::Rotary(g.builder(), qkv, options);
}

Value Attention(Layers& g, Value qkv, HeadCounts counts, AttentionMask mask) {
  ops::AttentionOptions options;
  options.heads = counts.heads;
  options.kv_heads = counts.kv_heads;
  options.causal = mask.causal;
  options.dropout = g.dropout().attention;
  return ops::Attention(g.builder(), qkv, options, options.dropout > 0 ? g.Rng() : kNoTensor,
                        mask.lengths);
}

Value Gelu(Layers& g, Value x, Activation activation) {
  return ops::Gelu(g.builder(), x, activation == Activation::kGeluTanh ? "tanh" : "none");
}

Value SwiGlu(Layers& g, Value gate_up) { return ops::Swiglu(g.builder(), gate_up); }

Value Add(Layers& g, std::string_view name, Value a, Value b) {
  return ops::Add(g.builder(), a, b, name);
}

Value Dropout(Layers& g, std::string_view name, Value x, double p) {
  if (p == 0) return x;
  return ops::Dropout(g.builder(), x, g.Rng(), p, name);
}

Value DropPath(Layers& g, std::string_view name, Value branch, double p) {
  if (p == 0 || !g.training()) return branch;
  return ops::DropPath(g.builder(), branch, g.Rng(), p, name);
}

double DropPathOf(double most, int64_t block, int64_t blocks) {
  return blocks > 1 ? most * static_cast<double>(block) / static_cast<double>(blocks - 1) : 0;
}

Value HeadRows(Layers& g, Value x, Head head) {
  if (head == Head::kLoss) return x;
  const Value last = g.Input("last", DType::kInt32, {g.batch().batch});
  return ops::SelectRows(g.builder(), x, last, "last_rows");
}

Model::Outputs LanguageModelHead(Layers& g, Value x, Value table, Head head, Value bias) {
  Model::Outputs outputs;
  if (head == Head::kLogits) {
    outputs.logits = ops::Linear(g.builder(), x, table, bias, "logits");
    return outputs;
  }
  const Value targets = g.Tokens("targets");
  outputs.loss =
      ops::LinearCrossEntropy(g.builder(), x, table, targets, g.TokenWeight(), bias, "loss");
  return outputs;
}

}  // namespace plimsoll::models
