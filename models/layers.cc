#include "models/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/attention/attention.h"
#include "ops/attention/rotary.h"
#include "ops/data_movement/views.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/drop_path.h"
#include "ops/elementwise/dropout.h"
#include "ops/linear/linear.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/linear_log_probs.h"
#include "ops/loss/preference_loss.h"
#include "ops/norms/norms.h"
#include "ops/norms/qk_norm.h"
#include "ops/norms/spectral_norm.h"
#include "ops/tokens/embedding.h"

namespace plimsoll::models {

using graph::DType;
using graph::kNoTensor;
using graph::Role;
using graph::Scope;
using graph::Shape;
using graph::Value;

namespace {

// The initial values with which a new norm multiplies by 1.
Initializer::Kind NormInitializer(bool unit_offset) {
  return unit_offset ? Initializer::kZeros : Initializer::kOnes;
}

}  // namespace

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

Value RmsNorm(Layers& g, std::string_view name, Value x, double eps, bool unit_offset) {
  Value weight;
  {
    const Scope scope(g.builder(), name);
    weight = g.Parameter("weight", {g.shape(x).dim(-1)}, {NormInitializer(unit_offset)});
  }
  return ops::RmsNorm(g.builder(), x, weight, eps, name, unit_offset);
}

Value SpectralNorm(Layers& g, std::string_view name, Value weight) {
  graph::Builder& builder = g.builder();
  const Shape shape = g.shape(weight);
  const auto vector = [&](std::string_view which, Shape own) {
    const double equal = 1 / std::sqrt(static_cast<double>(own.elements()));
    return g.State({.name = fmt::format("{}.{}", name, which),
                    .shape = own,
                    .initial = static_cast<float>(equal),
                    .merge = {.ranks = graph::OverRanks::kSame}});
  };
  ops::SingularVectors vectors = {vector("u", {shape.dim(0)}),
                                  vector("v", Shape(shape.dims().subspan(1)))};
  g.DeclareSingular(weight, vectors.u, vectors.v);
  if (g.training()) {
    // The power iteration starts from the states themselves, which the forward pass does not
    // change, or from the results of an earlier call. Therefore its results can be recomputed.
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

Value Embedding(Layers& g, std::string_view name, Value tokens, Value table, Value position,
                Value positions) {
  return ops::Embedding(g.builder(), tokens, table, position, positions, name);
}

Value DocumentPositions(Layers& g, const ModelSpec& spec, Head head) {
  return spec.documents_apart && head == Head::kLoss ? g.Tokens("positions") : kNoTensor;
}

Value QkNorm(Layers& g, Value qkv, HeadCounts counts, double eps, bool unit_offset) {
  const int64_t width = g.shape(qkv).dim(-1) / (counts.heads + 2 * counts.kv_heads);
  const auto weight = [&](std::string_view name) {
    const Scope scope(g.builder(), name);
    return g.Parameter("weight", {width}, {NormInitializer(unit_offset)});
  };
  const Value q_weight = weight("q_norm");
  const Value k_weight = weight("k_norm");
  return ops::QkNorm(
      g.builder(), qkv, q_weight, k_weight,
      {.heads = counts.heads, .kv_heads = counts.kv_heads, .eps = eps, .unit_offset = unit_offset},
      "qk_norm");
}

namespace {

// `longest`: the longest text that the program reads, in tokens.
ops::RotaryScaling RotaryScalingOf(const RopeScaling& scaling, int64_t longest) {
  using Kind = ops::RotaryScaling::Kind;
  ops::RotaryScaling made = {.factor = scaling.factor,
                             .low_freq_factor = scaling.low_freq_factor,
                             .high_freq_factor = scaling.high_freq_factor,
                             .original_sequence = scaling.original_sequence,
                             .beta_fast = scaling.beta_fast,
                             .beta_slow = scaling.beta_slow,
                             .truncate = scaling.truncate,
                             .attention_factor = scaling.attention_factor};
  switch (scaling.type) {
    case RopeScaling::Type::kLinear:
      made.kind = Kind::kLinear;
      break;
    case RopeScaling::Type::kLlama3:
      made.kind = Kind::kLlama3;
      break;
    case RopeScaling::Type::kYarn:
      made.kind = Kind::kYarn;
      break;
    case RopeScaling::Type::kLongrope:
      made.kind = Kind::kByPair;
      made.stretch =
          longest > scaling.original_sequence ? scaling.long_factor : scaling.short_factor;
      break;
  }
  return made;
}

}  // namespace

Value Rotary(Layers& g, Value qkv, HeadCounts counts, double theta,
             const std::optional<RopeScaling>& scaling, Value positions, int64_t width) {
  ops::RotaryOptions options;
  options.heads = counts.heads;
  options.kv_heads = counts.kv_heads;
  options.theta = theta;
  options.rotary_width = width;
  if (scaling) {
    options.scaling = RotaryScalingOf(*scaling, std::max(g.batch().sequence, g.batch().context));
  }
  return ops::Rotary(g.builder(), qkv, options, positions);
}

Value Attention(Layers& g, Value qkv, HeadCounts counts, AttentionMask mask,
                AttentionScores scores) {
  ops::AttentionOptions options;
  options.heads = counts.heads;
  options.kv_heads = counts.kv_heads;
  options.causal = mask.causal;
  options.window = mask.window;
  options.dropout = g.dropout().attention;
  options.scale = scores.scale;
  options.softcap = scores.softcap;
  return ops::Attention(g.builder(), qkv, options,
                        {.rng = options.dropout > 0 ? g.Rng() : kNoTensor,
                         .lengths = mask.lengths,
                         .positions = mask.positions});
}

Value Gelu(Layers& g, Value x, Activation activation) {
  return ops::Gelu(g.builder(), x, activation == Activation::kGeluTanh ? "tanh" : "none");
}

Value SwiGlu(Layers& g, Value gate_up) { return ops::Swiglu(g.builder(), gate_up); }

Value GeGlu(Layers& g, Value gate_up) { return ops::Geglu(g.builder(), gate_up); }

Value Scaled(Layers& g, std::string_view name, Value x, double factor) {
  return ops::ScaleRounded(g.builder(), x, factor, name);
}

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

namespace {

// For pairs of documents: computes the log-probabilities of their targets, and the preference loss
// from these.
Model::Outputs PreferenceHead(Layers& g, Value x, Value table, Value bias, double softcap) {
  const Value targets = g.Tokens("targets");
  Model::Outputs outputs;
  outputs.log_probs =
      ops::LinearLogProbs(g.builder(), x, table, targets, bias, "log_probs", softcap);
  const ops::PreferenceInputs inputs = {
      .logp = outputs.log_probs,
      .targets = targets,
      .positions = g.Tokens("positions"),
      .reference = g.Input("reference", DType::kFloat32, g.shape(targets)),
      .scale = g.TokenWeight()};
  const ops::PreferenceOutputs of =
      ops::PreferenceLoss(g.builder(), inputs, *g.preference(), "loss");
  outputs.loss = of.loss;
  const auto mean = [&](const char* name, Value sum, bool larger_is_better) {
    outputs.metrics.push_back(
        {.name = name, .sum = sum, .count = of.pairs, .larger_is_better = larger_is_better});
  };
  mean("rewards_chosen", of.rewards_chosen, true);
  mean("rewards_rejected", of.rewards_rejected, false);
  mean("rewards_margins", of.rewards_margins, true);
  mean("rewards_accuracies", of.rewards_accuracies, true);
  mean("logps_chosen", of.logps_chosen, true);
  mean("logps_rejected", of.logps_rejected, false);
  return outputs;
}

}  // namespace

Model::Outputs LanguageModelHead(Layers& g, Value x, Value table, Head head, Value bias,
                                 double softcap) {
  Model::Outputs outputs;
  if (head == Head::kLogits) {
    if (softcap == 0) {
      outputs.logits = ops::Linear(g.builder(), x, table, bias, "logits");
    } else {
      const Value uncapped = ops::Linear(g.builder(), x, table, bias, "logits.uncapped");
      outputs.logits = ops::Softcap(g.builder(), uncapped, softcap, "logits");
    }
    return outputs;
  }
  if (g.preference()) return PreferenceHead(g, x, table, bias, softcap);
  const Value targets = g.Tokens("targets");
  outputs.loss = ops::LinearCrossEntropy(g.builder(), x, table, targets, g.TokenWeight(), bias,
                                         "loss", softcap);
  return outputs;
}

}  // namespace plimsoll::models
