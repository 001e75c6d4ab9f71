// Runs the kernels of `add` and of the norm one after the other, and so has their bits; with
// dropout, the kernel of `dropout` runs first. Bytes: 5·N·D·s, and 2·N·D·s more for dropout. To
// find its largest magnitude, a result is read once more: N·D·s.
#include <array>

#include "ops/kernel.h"
#include "ops/norms/norm_dropout_cpu.h"
#include "ops/reductions/cpu_largest.h"

namespace plimsoll::ops {
namespace {

CpuContext Part(const CpuContext& ctx, const char* op, std::span<const TensorRef> inputs,
                std::span<const TensorRef> outputs) {
  return {{graph::OpRegistry::Get().Require(op), inputs, outputs, ctx.attributes, nullptr, 0},
          ctx.pool};
}

void Run(const char* op, const CpuContext& ctx) { FindCpuKernel(op)->run(ctx); }

// `parameters`: their number; 2 with a bias, else 1. y may have the memory of a or b: it is written
// after the last read of both.
void AddNorm(const CpuContext& ctx, const char* norm, size_t parameters) {
  std::array<TensorRef, 2> terms = {ctx.inputs[0], ctx.inputs[1]};
  if (const size_t rng = 2 + parameters; ctx.has_input(rng)) {
    // The dropped b goes to the memory of the sum, or to that of y if the sum overwrites a.
    const TensorRef& dropped = ctx.outputs[ctx.outputs[0].data == terms[0].data ? 1 : 0];
    RunDropout(ctx, terms[1], ctx.inputs[rng], dropped);
    terms[1] = dropped;
  }
  Run("add", Part(ctx, "add", terms, ctx.outputs.first(1)));
  std::array<TensorRef, 3> inputs = {ctx.outputs[0]};
  for (size_t i = 0; i < parameters; ++i) {
    if (ctx.has_input(2 + i)) inputs.at(1 + i) = ctx.inputs[2 + i];
  }
  // The outputs are y and the statistics; the norm has as many statistics as parameters.
  Run(norm, Part(ctx, norm, std::span(inputs).first(1 + parameters),
                 ctx.outputs.subspan(1, 1 + parameters)));
  StoreLargest(ctx);
}

const CpuKernelRegistration kAddLayerNorm({"add_layer_norm", [](const CpuContext& ctx) {
                                             AddNorm(ctx, "layer_norm", 2);
                                           }});
const CpuKernelRegistration kAddRmsNorm({"add_rms_norm", [](const CpuContext& ctx) {
                                           AddNorm(ctx, "rms_norm", 1);
                                         }});

}  // namespace
}  // namespace plimsoll::ops
