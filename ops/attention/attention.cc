#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::Cost;
using graph::CostClass;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

namespace {

// Appends the lengths and positions that the call has.
void AppendMask(std::vector<Value>& inputs, Value lengths, Value positions) {
  if (lengths != kNoTensor || positions != kNoTensor) inputs.push_back(lengths);
  if (positions != kNoTensor) inputs.push_back(positions);
}

}  // namespace

Value Attention(graph::Builder& g, Value qkv, const AttentionOptions& options,
                const AttentionInputs& given, std::string_view name) {
  const bool drops = options.dropout > 0;
  std::vector<Value> inputs = {qkv, drops ? given.rng : kNoTensor};
  AppendMask(inputs, given.lengths, given.positions);
  Attributes attributes{{"heads", options.heads},
                        {"kv_heads", options.kv_heads == 0 ? options.heads : options.kv_heads},
                        {"causal", options.causal},
                        {"dropout", options.dropout},
                        {"key", drops ? g.NextKey() : int64_t{0}}};
  if (options.window != 0) attributes.Set("window", options.window);
  if (options.scale != 0) attributes.Set("scale", options.scale);
  if (options.softcap != 0) attributes.Set("softcap", options.softcap);
  return g.Emit1("attention", inputs, std::move(attributes), name);
}

int64_t AttentionWindow(const Attributes& attributes) {
  return attributes.Has("window") ? attributes.GetInt("window") : 0;
}

double AttentionSoftcap(const Attributes& attributes) {
  return attributes.Has("softcap") ? attributes.GetReal("softcap") : 0;
}

double AttentionScale(const Attributes& attributes, int64_t head) {
  return attributes.Has("scale") ? attributes.GetReal("scale")
                                 : 1 / std::sqrt(static_cast<double>(head));
}

void CheckAttentionScores(const OpCall& call) {
  Check(AttentionSoftcap(call.attributes) >= 0, call, "needs a softcap of 0 (none) or more");
  Check(!call.attributes.Has("scale") || call.attributes.GetReal("scale") > 0, call,
        "needs a scale above 0");
}

namespace {

// Checks that qkv is input 0, rng input `rng`, and that lengths and positions follow it. Returns
// hd.
int64_t CheckOperands(const OpCall& call, size_t rng) {
  const TensorType& qkv = call.input(0);
  Check(graph::IsFloat(qkv.dtype) && qkv.shape.rank() == 3, call,
        "needs floats qkv[B,T,(H+2G)*hd]");
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t kv_heads = call.attributes.GetInt("kv_heads");
  Check(heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0, call,
        "needs heads that are a multiple of kv_heads");
  Check(qkv.shape.dim(2) % (heads + 2 * kv_heads) == 0, call, "heads don't divide the width");
  const double dropout = call.attributes.GetReal("dropout");
  Check(dropout >= 0 && dropout < 1, call, "needs a dropout in [0, 1)");
  Check(dropout == 0 || call.has_input(rng), call, "dropout needs rng");
  if (call.has_input(rng)) CheckRng(call, rng);
  CheckAbsentOr(call, rng + 1, {DType::kInt32, Shape{qkv.shape.dim(0)}});
  CheckAbsentOr(call, rng + 2, {DType::kInt32, qkv.shape.DropLast()});
  const bool positions = call.has_input(rng + 2);
  Check(!positions || !call.has_input(rng + 1), call, "needs lengths or positions, not both");
  const int64_t window = AttentionWindow(call.attributes);
  Check(window >= 0, call, "needs a window of 0 (none) or more");
  Check((window == 0 && !positions) || call.attributes.GetBool("causal"), call,
        "positions and a window need causal");
  CheckAttentionScores(call);
  return qkv.shape.dim(2) / (heads + 2 * kv_heads);
}

std::vector<TensorType> Infer(const OpCall& call) {
  const int64_t head = CheckOperands(call, 1);
  const TensorType& qkv = call.input(0);
  const int64_t heads = call.attributes.GetInt("heads");
  return WithLargest(
      call, {{qkv.dtype, qkv.shape.WithLast(heads * head)},
             {graph::ComputeType(qkv.dtype), Shape{qkv.shape.dim(0), heads, qkv.shape.dim(1)}}});
}

std::vector<TensorType> InferBackward(const OpCall& call) {
  const int64_t head = CheckOperands(call, 4);
  const TensorType& qkv = call.input(0);
  const int64_t heads = call.attributes.GetInt("heads");
  const TensorType out{qkv.dtype, qkv.shape.WithLast(heads * head)};
  Check(call.input(1) == out && call.input(3) == out, call, "out and dout are not [B,T,H*hd]");
  const TensorType lse{graph::ComputeType(qkv.dtype),
                       Shape{qkv.shape.dim(0), heads, qkv.shape.dim(1)}};
  Check(call.input(2) == lse, call, "lse is not [B,H,T]");
  return WithLargest(call, {qkv});
}

// The number of pairs of a query and a key that the query sees, in a row of `length` tokens.
double Pairs(const graph::Attributes& attributes, double length) {
  if (!attributes.GetBool("causal")) return length * length;
  const auto window = static_cast<double>(AttentionWindow(attributes));
  if (window == 0 || window >= length) return length * (length + 1) / 2;
  return window * (window + 1) / 2 + (length - window) * window;
}

// The cost of `products` products of hd multiply-adds, and of an exponential of 10 FLOPs, for each
// score; a soft cap adds 20 FLOPs. `again` of the products are recomputations. A plan doesn't know
// where documents begin: with positions, the cost is that of one document per row.
Cost AttentionCost(const OpCall& call, int products, int again) {
  const Shape& qkv = call.input(0).shape;
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t head = qkv.dim(2) / (heads + 2 * call.attributes.GetInt("kv_heads"));
  const double length = static_cast<double>(qkv.dim(1));
  const double scores = static_cast<double>(qkv.dim(0) * heads) * Pairs(call.attributes, length);
  const double product = scores * 2.0 * static_cast<double>(head);
  const double flops = AttentionSoftcap(call.attributes) > 0 ? 30 : 10;
  return {products * product + flops * scores, ArgumentBytes(call), (products - again) * product};
}

void Gradient(graph::GradientContext& context) {
  const Value dout = context.output_gradient(0);
  if (!context.wants(0) || dout == kNoTensor) return;
  const Value lse = context.output(1);
  if (lse == kNoTensor) throw InternalError("attention: differentiated without its output lse");
  std::vector<Value> inputs = {context.input(0), context.output(0), lse, dout, context.input(1)};
  AppendMask(inputs, context.input(2), context.input(3));
  context.SetGradient(0,
                      context.builder().Emit1("attention_backward", inputs, context.attributes()));
}

const graph::OpRegistration kAttention({
    .name = "attention",
    .inputs = {{"qkv"}, {"rng", true}, {"lengths", true}, {"positions", true}},
    .outputs = {{"out"}, {"lse", true}, {"largest", true}},
    .infer = Infer,
    .gradient = Gradient,
    .cost = [](const OpCall& call) { return AttentionCost(call, 2, 0); },
    .random = true,
    .precision = {Precision::kLow, "low operands; scores, softmax and its sums stay in float32",
                  /*tf32=*/true},
    .cost_class = CostClass::kAttention,
    .sharding = {.follows = ShardingRule::kHeads},
    .continuation = {.cached_op = "attention_cached"},
    .recompute_preset = "attention",
    .finds_largest = {0},
});

const graph::OpRegistration kAttentionBackward({
    .name = "attention_backward",
    .inputs = {{"qkv"},
               {"out"},
               {"lse"},
               {"dout"},
               {"rng", true},
               {"lengths", true},
               {"positions", true}},
    .outputs = {{"dqkv"}, {"largest", true}},
    .infer = InferBackward,
    .gradient = {},
    .cost = [](const OpCall& call) { return AttentionCost(call, 5, 1); },
    .random = true,
    .cost_class = CostClass::kAttention,
    .finds_largest = {0},
});

bool IsHalf(const OpCall& call) {
  const DType dtype = call.input(0).dtype;
  return dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

// The number of queries of all heads.
int64_t Rows(const OpCall& call) {
  const Shape& qkv = call.input(0).shape;
  return qkv.dim(0) * qkv.dim(1) * call.attributes.GetInt("heads");
}

// Whether queries may see fewer keys than a causal mask allows. `positions`: the index of that
// input. A window at least as long as the row cuts nothing off.
bool HasRanges(const OpCall& call, size_t positions) {
  const int64_t window = AttentionWindow(call.attributes);
  return call.has_input(positions) || (window != 0 && window < call.input(0).shape.dim(1));
}

// Whether cuDNN may compute the call, which is in 16 bits. `positions`: the index of that input.
bool MaySuitCudnn(const OpCall& call, size_t positions) {
  return call.attributes.GetReal("dropout") == 0 && AttentionSoftcap(call.attributes) == 0 &&
         !HasRanges(call, positions);
}

// Workspace that cuDNN asks for, plus lse, which cuDNN always writes.
int64_t ForwardWorkspace(const OpCall& call) {
  if (!IsHalf(call) || !MaySuitCudnn(call, 3)) return 0;
  return 256 + (call.has_output(1) ? 0 : AttentionLseBytes(Rows(call)));
}

// The workspace of our own kernels for all GPUs: the row sums of dout∘out, and sums of dk and dv.
int64_t PortableBackwardWorkspace(const OpCall& call, ComputeCapability gpu, int64_t kv_heads,
                                  int64_t head) {
  const int64_t rows = AttentionLseBytes(Rows(call));
  const bool tf32 = call.attributes.Has("tf32") && call.attributes.GetBool("tf32");
  const bool by_mma = gpu.major >= 8 && head % 8 == 0 && head <= kMmaHead && (IsHalf(call) || tf32);
  if (!by_mma) return rows;
  const Shape& qkv = call.input(0).shape;
  const int64_t heads = call.attributes.GetInt("heads");
  return rows + MmaKeyParts(qkv.dim(0), qkv.dim(1), heads, kv_heads, head).Bytes();
}

// The workspace of the backward op. The kernels for Hopper keep lse besides the row sums, and the
// one-pass kernels also sums of gradients. cuDNN needs more.
int64_t BackwardWorkspace(const OpCall& call, ComputeCapability gpu) {
  const Shape& qkv = call.input(0).shape;
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t kv_heads = call.attributes.GetInt("kv_heads");
  const int64_t head = qkv.dim(2) / (heads + 2 * kv_heads);
  const int64_t portable = PortableBackwardWorkspace(call, gpu, kv_heads, head);
  if (!IsHalf(call)) return portable;
  const bool hopper = gpu.is_hopper() && head % 8 == 0 && head <= kWidestHead;
  if (!hopper) {
    if (!TakesCudnnBackward(head) || !MaySuitCudnn(call, 6)) return portable;
    const AttentionSplit split =
        SplitAttentionBackward(qkv.dim(0), qkv.dim(1), heads, kv_heads, head);
    return std::max(portable, split.lanes * split.lane_bytes);
  }
  const bool caps = AttentionSoftcap(call.attributes) > 0;
  const int64_t two_passes = std::max(2 * AttentionLseBytes(Rows(call)), caps ? portable : 0);
  const bool causal = call.attributes.GetBool("causal");
  const OnePassAttention pass(qkv.dim(0), qkv.dim(1), heads, kv_heads, causal);
  if (PrefersOnePass(pass, head)) return std::max(two_passes, pass.Bytes());
  const WideAttention wide(qkv.dim(0), qkv.dim(1), heads, kv_heads, causal);
  if (PrefersWideOnePass(wide, head)) return std::max(two_passes, wide.Bytes());
  if (head <= kHopperAttentionHead) return two_passes;
  return WidestAttention(qkv.dim(0), qkv.dim(1), heads).Bytes();
}

const CudaWorkspaceRegistration kForwardWorkspace("attention", &ForwardWorkspace);
const CudaWorkspaceRegistration kBackwardWorkspace("attention_backward", &BackwardWorkspace);

}  // namespace
}  // namespace plimsoll::ops
