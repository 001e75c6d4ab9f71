// Runs the norm's kernel, that of `largest_magnitude` and that of `quantize`: their bytes
// (ops/norms/quantize_norm.h). The norm's result lies in the workspace, and the sum, too, unless it
// is wanted.
#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "ops/kernel.h"
#include "ops/norms/quantize_norm.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::TensorType;
using namespace quantize_norm;

constexpr int64_t kAlignment = 64;  // of tensors

int64_t AlignedBytes(const TensorType& x) {
  return (x.bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void Run(const CpuContext& ctx, const char* op, std::span<const TensorRef> inputs,
         std::span<const TensorRef> outputs) {
  FindCpuKernel(op)->run({{graph::OpRegistry::Get().Require(op), inputs, outputs, ctx.attributes,
                           nullptr, 0, ctx.ranks},
                          ctx.pool});
}

// An output, absent if it isn't wanted.
TensorRef OutputOf(const CpuContext& ctx, size_t i) {
  return ctx.has_output(i) ? ctx.outputs[i] : TensorRef{};
}

void QuantizeNorm(const CpuContext& ctx) {
  const std::string& of = ctx.attributes.GetWord("of");
  const TensorType& type = ctx.inputs[kX].type;
  auto* const scratch = static_cast<std::byte*>(ctx.workspace);
  const TensorRef y = {scratch, type};
  TensorRef largest = {scratch + AlignedBytes(type), {DType::kFloat32, {}}};
  if (ctx.has_output(kLargest)) largest.data = ctx.outputs[kLargest].data;

  const TensorRef& weight = ctx.inputs[kWeight];
  const TensorRef mean = OutputOf(ctx, kMean), rstd = OutputOf(ctx, kRstd);
  TensorRef sum = OutputOf(ctx, kSum);
  if (sum.data == nullptr) sum = {scratch + AlignedBytes(type) + kAlignment, type};
  std::array<TensorRef, 4> inputs = {ctx.inputs[kX], weight, ctx.inputs[kBias]};
  std::array<TensorRef, 4> outputs = {y, mean, rstd};
  if (NormAdds(of)) {
    inputs = {ctx.inputs[kX], ctx.inputs[kAddend], weight, ctx.inputs[kBias]};
    outputs = {sum, y, mean, rstd};
  }
  size_t count = NormAdds(of) ? 4 : 3;  // of inputs, and of outputs
  if (!NormHasMean(of)) {               // no bias, nor a mean
    outputs[count - 2] = rstd;
    --count;
    if (ctx.has_output(kMean)) {
      std::fill_n(ctx.out<float>(kMean), ctx.out_shape(kMean).elements(), 0.0f);
    }
  }
  Run(ctx, of.c_str(), std::span(inputs).first(count), std::span(outputs).first(count));
  Run(ctx, "largest_magnitude", {&y, 1}, {&largest, 1});
  const std::array<TensorRef, 4> quantized = {y, largest, TensorRef{}, ctx.inputs[kExpected]};
  const size_t made = std::min<size_t>(ctx.outputs.size(), kLargest);
  Run(ctx, "quantize", quantized, ctx.outputs.first(made));
}

// y, its largest magnitude, and the sum.
int64_t Workspace(const graph::OpCall& call, int /*threads*/) {
  const TensorType& x = call.input(kX);
  const bool adds = call.has_input(kAddend) && !call.has_output(kSum);
  return AlignedBytes(x) + kAlignment + (adds ? x.bytes() : 0);
}

const CpuKernelRegistration kQuantizeNorm({"quantize_norm", &QuantizeNorm, &Workspace});

}  // namespace
}  // namespace plimsoll::ops
