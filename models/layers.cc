#include "models/layers.h"

#include <string>
#include <utility>

namespace plimsoll::models {

using graph::Attributes;
using graph::DType;
using graph::kNoTensor;
using graph::Role;
using graph::Scope;
using graph::Shape;
using graph::Value;

Value Layers::Parameter(std::string_view name, Shape shape, Initializer init) {
  std::string full = builder_.Qualified(name);
  parameters_.push_back({full, shape, init});
  return builder_.Persistent(std::move(full), Role::kParameter, {DType::kFloat32, shape});
}

Value Layers::Input(std::string_view name, DType dtype, Shape shape) {
  return builder_.Persistent(std::string(name), Role::kInput, {dtype, shape});
}

Value Layers::Tokens(std::string_view name) {
  return Input(name, DType::kInt32, {batch_.batch, batch_.sequence});
}

Value Layers::Rng() {
  if (rng_ == kNoTensor) rng_ = Input("rng", DType::kInt32, {2});
  return rng_;
}

Value Linear(Layers& g, std::string_view name, Value x, int64_t outputs, LinearOptions options) {
  std::vector<Value> inputs = {x};
  {
    const Scope scope(g.builder(), name);
    const int64_t width = g.shape(x).dim(-1);
    inputs.push_back(
        g.Parameter("weight", {outputs, width}, {Initializer::kNormal, options.init_std}));
    if (options.bias) inputs.push_back(g.Parameter("bias", {outputs}, {Initializer::kZeros}));
  }
  return g.builder().Emit1("linear", std::move(inputs), {}, name);
}

Value LayerNorm(Layers& g, std::string_view name, Value x, double eps) {
  std::vector<Value> inputs = {x};
  {
    const Scope scope(g.builder(), name);
    inputs.push_back(g.Parameter("weight", {g.shape(x).dim(-1)}, {Initializer::kOnes}));
    inputs.push_back(g.Parameter("bias", {g.shape(x).dim(-1)}, {Initializer::kZeros}));
  }
  return g.builder().Emit1("layer_norm", std::move(inputs), {{"eps", eps}}, name);
}

Value RmsNorm(Layers& g, std::string_view name, Value x, double eps) {
  std::vector<Value> inputs = {x};
  {
    const Scope scope(g.builder(), name);
    inputs.push_back(g.Parameter("weight", {g.shape(x).dim(-1)}, {Initializer::kOnes}));
  }
  return g.builder().Emit1("rms_norm", std::move(inputs), {{"eps", eps}}, name);
}

Value EmbeddingTable(Layers& g, std::string_view name, int64_t rows, int64_t width,
                     double init_std) {
  const Scope scope(g.builder(), name);
  return g.Parameter("weight", {rows, width}, {Initializer::kNormal, init_std});
}

Value Embedding(Layers& g, std::string_view name, Value tokens, Value table, Value position) {
  std::vector<Value> inputs = {tokens, table};
  if (position != kNoTensor) inputs.push_back(position);
  return g.builder().Emit1("embedding", std::move(inputs), {}, name);
}

Value Rotary(Layers& g, Value qkv, HeadCounts counts, double theta,
             const std::optional<RopeScaling>& scaling) {
  Attributes attributes = {
      {"heads", counts.heads}, {"kv_heads", counts.kv_heads}, {"theta", theta}, {"inverse", false}};
  if (scaling) {
    attributes.Set("factor", scaling->factor);
    attributes.Set("low_freq_factor", scaling->low_freq_factor);
    attributes.Set("high_freq_factor", scaling->high_freq_factor);
    attributes.Set("original_sequence", scaling->original_sequence);
  }
  return g.builder().Emit1("rotary", {qkv}, std::move(attributes));
}

Value Attention(Layers& g, Value qkv, HeadCounts counts) {
  std::vector<Value> inputs = {qkv};
  if (g.dropout() > 0) inputs.push_back(g.Rng());
  return g.builder().Emit1("attention", std::move(inputs),
                           {{"heads", counts.heads},
                            {"kv_heads", counts.kv_heads},
                            {"causal", true},
                            {"dropout", g.dropout()},
                            {"key", g.builder().NextKey()}});
}

Value Gelu(Layers& g, Value x, Activation activation) {
  const std::string approximate = activation == Activation::kGeluTanh ? "tanh" : "none";
  return g.builder().Emit1("gelu", {x}, {{"approximate", approximate}});
}

Value SwiGlu(Layers& g, Value gate_up) { return g.builder().Emit1("swiglu", {gate_up}); }

Value Add(Layers& g, std::string_view name, Value a, Value b) {
  return g.builder().Emit1("add", {a, b}, {}, name);
}

Value Dropout(Layers& g, std::string_view name, Value x) {
  if (g.dropout() == 0) return x;
  return g.builder().Emit1("dropout", {x, g.Rng()},
                           {{"p", g.dropout()}, {"key", g.builder().NextKey()}}, name);
}

Value HeadRows(Layers& g, Value x, Head head) {
  if (head == Head::kLoss) return x;
  const Value last = g.Input("last", DType::kInt32, {g.batch().batch});
  return g.builder().Emit1("select_rows", {x, last}, {}, "last_rows");
}

Model::Outputs LanguageModelHead(Layers& g, Value x, Value table, Head head) {
  Model::Outputs outputs;
  if (head == Head::kLogits) {
    outputs.logits = g.builder().Emit1("linear", {x, table}, {}, "logits");
    return outputs;
  }
  const Value targets = g.Tokens("targets");
  const Value weight = g.Input("token_weight", DType::kFloat32, {});
  outputs.loss = g.builder().Emit1("linear_cross_entropy", {x, table, targets, weight}, {}, "loss");
  return outputs;
}

}  // namespace plimsoll::models
