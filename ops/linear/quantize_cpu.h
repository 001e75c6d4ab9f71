// For CPU kernels of ops that make a tensor y and its 8-bit codes at once. They run the kernels of
// the ops that they replace, so they have the same bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/kernel.h"

namespace plimsoll::ops {

// Runs the kernel of another op, which needs no workspace, with the attributes of this call.
inline void RunCpuOp(const CpuContext& ctx, const char* op, std::span<const TensorRef> inputs,
                     std::span<const TensorRef> outputs) {
  FindCpuKernel(op)->run({{graph::OpRegistry::Get().Require(op), inputs, outputs, ctx.attributes,
                           nullptr, 0, ctx.ranks},
                          ctx.pool});
}

// The bytes of a tensor in a workspace, rounded up so that the next one is aligned like tensors.
inline int64_t AlignedBytes(const graph::TensorType& type) { return (type.bytes() + 63) / 64 * 64; }

// Finds y's largest magnitude and makes codes of y. The magnitude goes to this call's output
// `largest`, or to `scratch` if that output is absent. The codes are the outputs before `largest`.
inline void QuantizeOnCpu(const CpuContext& ctx, const TensorRef& y, size_t largest, void* scratch,
                          const TensorRef& acc_sums, const TensorRef& expected) {
  const TensorRef found = {ctx.has_output(largest) ? ctx.outputs[largest].data : scratch,
                           {graph::DType::kFloat32, {}}};
  RunCpuOp(ctx, "largest_magnitude", {&y, 1}, {&found, 1});
  const std::array inputs = {y, found, acc_sums, expected};
  RunCpuOp(ctx, "quantize", inputs, ctx.outputs.first(std::min(ctx.outputs.size(), largest)));
}

}  // namespace plimsoll::ops
