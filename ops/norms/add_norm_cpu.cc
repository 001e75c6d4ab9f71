// Runs the kernels of `add` and of the norm one after the other, and so gives their bits. Bytes:
// 5·N·D·s.
#include <array>

#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

CpuContext Part(const CpuContext& ctx, const char* op, std::span<const TensorRef> inputs,
                std::span<const TensorRef> outputs) {
  return {{graph::OpRegistry::Get().Require(op), inputs, outputs, ctx.attributes, nullptr, 0},
          ctx.pool};
}

void Run(const char* op, const CpuContext& ctx) { FindCpuKernel(op)->run(ctx); }

// y may have the memory of a or b: it is written after the last read of both.
void AddNorm(const CpuContext& ctx, const char* norm) {
  Run("add", Part(ctx, "add", ctx.inputs.first(2), ctx.outputs.first(1)));
  std::array<TensorRef, 3> inputs = {ctx.outputs[0]};
  const size_t parameters = ctx.inputs.size() - 2;
  for (size_t i = 0; i < parameters; ++i) inputs.at(1 + i) = ctx.inputs[2 + i];
  Run(norm, Part(ctx, norm, std::span(inputs).first(1 + parameters), ctx.outputs.subspan(1)));
}

const CpuKernelRegistration kAddLayerNorm({"add_layer_norm", [](const CpuContext& ctx) {
                                             AddNorm(ctx, "layer_norm");
                                           }});
const CpuKernelRegistration kAddRmsNorm({"add_rms_norm",
                                         [](const CpuContext& ctx) { AddNorm(ctx, "rms_norm"); }});

}  // namespace
}  // namespace plimsoll::ops
