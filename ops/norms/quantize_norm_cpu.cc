// Runs the kernels of the norm, of `largest_magnitude` and of `quantize`, and so has their bits
// (ops/norms/quantize_norm.h). The workspace holds the norm's result, and then the largest
// magnitude and the sum, unless these are outputs.
#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "ops/kernel.h"
#include "ops/linear/quantize_cpu.h"
#include "ops/norms/quantize_norm.h"

namespace plimsoll::ops {
namespace {

using namespace quantize_norm;

// Bytes of the workspace for the largest magnitude, padded so that the sum after it is aligned like
// tensors.
constexpr int64_t kLargestBytes = 64;

void QuantizeNorm(const CpuContext& ctx) {
  const std::string& of = ctx.attributes.GetWord("of");
  const graph::TensorType& type = ctx.inputs[kX].type;
  auto* const scratch = static_cast<std::byte*>(ctx.workspace);
  std::byte* const after = scratch + AlignedBytes(type);
  const TensorRef y = {scratch, type};
  const auto output = [&](size_t i) { return ctx.has_output(i) ? ctx.outputs[i] : TensorRef{}; };

  std::array<TensorRef, 4> inputs, outputs;
  size_t reads = 0, writes = 0;
  inputs[reads++] = ctx.inputs[kX];
  if (NormAdds(of)) {
    inputs[reads++] = ctx.inputs[kAddend];
    outputs[writes++] =
        ctx.has_output(kSum) ? ctx.outputs[kSum] : TensorRef{after + kLargestBytes, type};
  }
  inputs[reads++] = ctx.inputs[kWeight];
  outputs[writes++] = y;
  if (NormHasMean(of)) {
    inputs[reads++] = ctx.inputs[kBias];
    outputs[writes++] = output(kMean);
  } else if (ctx.has_output(kMean)) {
    std::fill_n(ctx.out<float>(kMean), ctx.out_shape(kMean).elements(), 0.0f);
  }
  outputs[writes++] = output(kRstd);
  RunCpuOp(ctx, of.c_str(), std::span(inputs).first(reads), std::span(outputs).first(writes));
  QuantizeOnCpu(ctx, y, kLargest, after, TensorRef{}, ctx.inputs[kExpected]);
}

int64_t Workspace(const graph::OpCall& call, int /*threads*/) {
  const graph::TensorType& x = call.input(kX);
  const bool adds = call.has_input(kAddend) && !call.has_output(kSum);
  return AlignedBytes(x) + kLargestBytes + (adds ? x.bytes() : 0);
}

const CpuKernelRegistration kQuantizeNorm({"quantize_norm", &QuantizeNorm, &Workspace});

}  // namespace
}  // namespace plimsoll::ops
