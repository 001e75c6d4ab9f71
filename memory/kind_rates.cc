#include "memory/kind_rates.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/bytes.h"

namespace plimsoll::memory {
namespace {

using graph::CostClass;
using graph::DType;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

// The type of the first input that is a float or a code. Ids and random draws don't count: they are
// used with any type.
std::string_view NumbersOf(const OpCall& call) {
  for (const auto arguments : {call.inputs, call.outputs}) {
    for (const TensorType* type : arguments) {
      if (type == nullptr) continue;
      if (graph::IsFloat8(type->dtype)) return "fp8";
      if (type->dtype == DType::kBFloat16 || type->dtype == DType::kFloat16) return "half";
      if (!graph::IsFloat(type->dtype)) continue;
      return call.attributes.Has("tf32") && call.attributes.GetBool("tf32") ? "tf32" : "fp32";
    }
  }
  return "fp32";
}

bool IsConvolution(std::string_view op) {
  return op == "conv" || op == "conv_dx" || op == "conv_dw" || op == "conv_transpose";
}

// The weight [O,…,I/G] of a convolution: conv_dw writes it, other convolutions read it.
const Shape* WeightOf(const OpCall& call) {
  if (call.op.name == "conv_dw") {
    return call.has_output(0) ? &call.output(0).shape : nullptr;
  }
  return &call.input(1).shape;
}

std::string_view ConvolutionForm(const OpCall& call) {
  const Shape* weight = WeightOf(call);
  if (weight == nullptr) return "";
  constexpr int64_t kFew = 16;  // fewer channels than the matrix units process at a time
  const bool volume = weight->rank() == 5;
  if (std::min(weight->dim(0), weight->dim(-1)) < kFew) {
    return volume ? "volume of few channels" : "image of few channels";
  }
  int64_t taps = 1;
  for (int i = 1; i + 1 < static_cast<int>(weight->rank()); ++i) taps *= weight->dim(i);
  const bool strided = call.attributes.GetInt("stride_w") > 1;
  static constexpr std::string_view kForms[2][2][2] = {
      {{"image", "image strided"}, {"image 1", "image 1 strided"}},
      {{"volume", "volume strided"}, {"volume 1", "volume 1 strided"}}};
  return kForms[volume][taps == 1][strided];
}

std::string_view ProductForm(const OpCall& call) {
  constexpr double kLarge = 0.5e12;  // FLOPs
  constexpr size_t kLossBias = 6;
  static constexpr std::string_view kForms[2][2] = {{"small", "large"},
                                                    {"small with bias", "large with bias"}};
  const std::string_view op = call.op.name;
  const bool bias = op == "linear_dw"
                        ? call.has_output(1)
                        : op == "linear_cross_entropy_train" && call.has_input(kLossBias);
  return kForms[bias][graph::CostOf(call).flops >= kLarge];
}

// The numbers of heads in packed queries, keys and values.
struct Heads {
  explicit Heads(const OpCall& call)
      : queries(call.attributes.GetInt("heads")),
        keys(call.attributes.GetInt("kv_heads")),
        width(call.input(0).shape.dim(-1) / (queries + 2 * keys)) {}

  int64_t queries, keys, width;
};

std::string_view AttentionForm(const OpCall& call) {
  static constexpr std::string_view kForms[3][2] = {{"heads of 64", "heads of 64 causal"},
                                                    {"heads of 128", "heads of 128 causal"},
                                                    {"heads of 256", "heads of 256 causal"}};
  const int64_t width = Heads(call).width;
  return kForms[width <= 64 ? 0 : width <= 128 ? 1 : 2][call.attributes.GetBool("causal")];
}

// The factor by which a size grows when it is rounded up to a multiple.
double Padding(int64_t size, int64_t multiple) {
  return static_cast<double>(RoundUp(size, multiple)) / static_cast<double>(size);
}

// The padding of a convolution's product. Its rows are the pixels, its columns the channels that it
// makes, and it sums over taps and the other channels. In the product of conv_dw, both kinds of
// channels are outside the sum.
double ConvolutionPadding(const OpCall& call) {
  const Shape* weight = WeightOf(call);
  if (weight == nullptr) return 1;
  constexpr int64_t kColumns = 64, kSummed = 32;
  const int64_t out = weight->dim(0), in = weight->dim(-1);
  if (call.op.name == "conv_dw") return Padding(out, kColumns) * Padding(in, kColumns);
  if (call.op.name == "conv") return Padding(out, kColumns) * Padding(in, kSummed);
  return Padding(in, kColumns) * Padding(out, kSummed);
}

// The op whose rates are used. A kernel that recomputes a function with its gradient is bound by
// what the gradient reads and writes. With separate rates it could seem faster than the gradient
// alone, and keeping everything would not be the fastest plan, which planning assumes.
std::string_view RatedAs(std::string_view op) {
  static constexpr std::pair<std::string_view, std::string_view> kAlike[] = {
      {"geglu_with_backward", "geglu_backward"},
      {"gelu_with_backward", "gelu_backward"},
      {"layer_norm_with_backward", "layer_norm_backward"},
      {"rms_norm_with_backward", "rms_norm_backward"},
      {"swiglu_with_backward", "swiglu_backward"}};
  for (const auto& [with, alone] : kAlike) {
    if (op == with) return alone;
  }
  return op;
}

}  // namespace

RateKind RateKindOf(const OpCall& call) {
  RateKind kind = {RatedAs(call.op.name), NumbersOf(call), ""};
  if (call.op.cost_class == CostClass::kAttention) {
    kind.form = AttentionForm(call);
  } else if (IsConvolution(call.op.name)) {
    kind.form = ConvolutionForm(call);
  } else if (call.op.cost_class == CostClass::kProducts) {
    kind.form = ProductForm(call);
  }
  return kind;
}

graph::Cost KernelWork(const OpCall& call) {
  graph::Cost work = graph::CostOf(call);
  if (call.op.cost_class == CostClass::kAttention) {
    constexpr int64_t kTokens = 128;
    const Heads heads(call);
    const double padding = Padding(call.input(0).shape.dim(-2), kTokens);
    work.flops *= padding * padding;
    work.bytes *= 3.0 * static_cast<double>(heads.queries) /
                  static_cast<double>(heads.queries + 2 * heads.keys);
  } else if (IsConvolution(call.op.name)) {
    work.flops *= ConvolutionPadding(call);
  }
  return work;
}

const MeasuredRate* FindRate(std::span<const MeasuredRate> table, const RateKind& kind,
                             CostClass cost_class) {
  const auto from = [&](const RateKind& wanted) {
    return std::ranges::lower_bound(table, wanted, {}, &MeasuredRate::kind);
  };
  for (const std::string_view form : {kind.form, std::string_view()}) {
    const RateKind wanted{kind.op, kind.numbers, form};
    const auto found = from(wanted);
    if (found != table.end() && found->kind == wanted) return &*found;
  }
  if (cost_class != CostClass::kBandwidth) return nullptr;
  const auto first = from({kind.op, "", ""});
  return first != table.end() && first->kind.op == kind.op ? &*first : nullptr;
}

}  // namespace plimsoll::memory
