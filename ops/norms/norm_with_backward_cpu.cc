// Computes y from the statistics like the norm, then runs the backward op's kernel, so both have
// the bits of the separate ops. To find its largest magnitude, a result is read once more: N·D·s.
#include <algorithm>
#include <array>
#include <vector>

#include "ops/kernel.h"
#include "ops/norms/norm_rows.h"
#include "ops/reductions/cpu_largest.h"
#include "ops/reductions/row_partials.h"

namespace plimsoll::ops {
namespace {

// The results of the backward op, without the largest magnitudes, which this kernel finds itself.
std::span<const TensorRef> ResultsOfBackward(const CpuContext& ctx) {
  const size_t most = ctx.op.outputs.size() - ctx.op.finds_largest.size();
  return ctx.outputs.first(std::min(ctx.outputs.size(), most)).subspan(1);
}

// Maps input i of layer_norm_backward to an input of this op, whose third input is the bias.
constexpr size_t FromLayerNormBackward(size_t i) { return i < 2 ? i : i + 1; }

void LayerNormWithBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t width = ctx.in_shape(0).dim(-1);
    const S *x = ctx.in<S>(0), *weight = ctx.in<S>(1), *bias = ctx.in<S>(2);
    const T *mean = ctx.in<T>(3), *rstd = ctx.in<T>(4);
    S* y = ctx.out<S>(0);
    ctx.pool.ParallelFor(ctx.in_shape(0).rows(), RowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * width;
        LayerNormRow(x + at, mean[row], rstd[row], weight, bias, width, y + at);
      }
    });
  });
  std::array<TensorRef, 9> inputs = {};
  const size_t count = ctx.inputs.size() - 1;
  for (size_t i = 0; i < count; ++i) inputs.at(i) = ctx.inputs[FromLayerNormBackward(i)];
  FindCpuKernel("layer_norm_backward")
      ->run(
          {{graph::OpRegistry::Get().Require("layer_norm_backward"), std::span(inputs).first(count),
            ResultsOfBackward(ctx), ctx.attributes, ctx.workspace, ctx.workspace_bytes, ctx.ranks},
           ctx.pool});
  StoreLargest(ctx);
}

void RmsNormWithBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t width = ctx.in_shape(0).dim(-1);
    const S *x = ctx.in<S>(0), *weight = ctx.in<S>(1);
    const T* rstd = ctx.in<T>(2);
    S* y = ctx.out<S>(0);
    DispatchUnitOffset(ctx.attributes, [&]<bool kUnitOffset>() {
      ctx.pool.ParallelFor(ctx.in_shape(0).rows(), RowGrain(width),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t row = begin; row < end; ++row) {
                               const int64_t at = row * width;
                               RmsNormRow<kUnitOffset>(x + at, rstd[row], weight, width, y + at);
                             }
                           });
    });
  });
  FindCpuKernel("rms_norm_backward")
      ->run(
          {{graph::OpRegistry::Get().Require("rms_norm_backward"), ctx.inputs,
            ResultsOfBackward(ctx), ctx.attributes, ctx.workspace, ctx.workspace_bytes, ctx.ranks},
           ctx.pool});
  StoreLargest(ctx);
}

// The workspace of the backward op.
int64_t Workspace(const graph::OpCall& call, int threads, const char* backward,
                  std::span<const graph::TensorType* const> inputs) {
  return FindCpuKernel(backward)->workspace({graph::OpRegistry::Get().Require(backward), inputs,
                                             call.outputs.subspan(1), call.attributes},
                                            threads);
}

int64_t LayerNormWorkspace(const graph::OpCall& call, int threads) {
  std::vector<const graph::TensorType*> inputs(call.inputs.begin(), call.inputs.end());
  inputs.erase(inputs.begin() + 2);
  return Workspace(call, threads, "layer_norm_backward", inputs);
}

int64_t RmsNormWorkspace(const graph::OpCall& call, int threads) {
  return Workspace(call, threads, "rms_norm_backward", call.inputs);
}

const CpuKernelRegistration kLayerNorm({"layer_norm_with_backward", &LayerNormWithBackward,
                                        &LayerNormWorkspace});
const CpuKernelRegistration kRmsNorm({"rms_norm_with_backward", &RmsNormWithBackward,
                                      &RmsNormWorkspace});

}  // namespace
}  // namespace plimsoll::ops
