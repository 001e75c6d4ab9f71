// Runs the activation's kernel, that of `largest_magnitude` and that of `quantize`: their bytes
// (ops/linear/quantize_activation.h). The activation's result lies in the workspace.
#include <algorithm>
#include <array>

#include "ops/kernel.h"
#include "ops/linear/quantize_activation.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::TensorType;

constexpr int64_t kAlignment = 64;  // of tensors

constexpr size_t kLargest = 4;  // output

// From the workspace's start to where the largest magnitude is, if it is no output.
int64_t LargestAt(const TensorType& y) {
  return (y.bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void Run(const CpuContext& ctx, const char* op, std::span<const TensorRef> inputs,
         std::span<const TensorRef> outputs) {
  FindCpuKernel(op)->run({{graph::OpRegistry::Get().Require(op), inputs, outputs, ctx.attributes,
                           nullptr, 0, ctx.ranks},
                          ctx.pool});
}

void QuantizeActivation(const CpuContext& ctx) {
  const std::string& of = ctx.attributes.GetWord("of");
  auto* const scratch = static_cast<std::byte*>(ctx.workspace);
  const TensorRef y = {scratch, QuantizedActivationType(of, ctx.inputs[0].type)};
  TensorRef largest = {scratch + LargestAt(y.type), {DType::kFloat32, {}}};
  if (ctx.has_output(kLargest)) largest.data = ctx.outputs[kLargest].data;

  Run(ctx, of.c_str(), ctx.inputs.first(ctx.has_input(1) ? 2 : 1), {&y, 1});
  Run(ctx, "largest_magnitude", {&y, 1}, {&largest, 1});
  const std::array<TensorRef, 4> inputs = {y, largest, ctx.inputs[2], ctx.inputs[3]};
  Run(ctx, "quantize", inputs, ctx.outputs.first(std::min(ctx.outputs.size(), kLargest)));
}

int64_t Workspace(const graph::OpCall& call, int /*threads*/) {
  const std::string& of = call.attributes.GetWord("of");
  const TensorType y = QuantizedActivationType(of, call.input(0));
  return LargestAt(y) + static_cast<int64_t>(sizeof(float));
}

const CpuKernelRegistration kQuantizeActivation({"quantize_activation", &QuantizeActivation,
                                                 &Workspace});

}  // namespace
}  // namespace plimsoll::ops
