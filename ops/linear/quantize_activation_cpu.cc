// Runs the activation's kernel, that of `largest_magnitude` and that of `quantize`: their bytes
// (ops/linear/quantize_activation.h). The activation's result lies in the workspace, and the
// largest magnitude after it, unless that is an output.
#include "ops/kernel.h"
#include "ops/linear/quantize_activation.h"
#include "ops/linear/quantize_cpu.h"

namespace plimsoll::ops {
namespace {

void QuantizeActivation(const CpuContext& ctx) {
  constexpr size_t kLargest = 4;  // output
  const std::string& of = ctx.attributes.GetWord("of");
  auto* const scratch = static_cast<std::byte*>(ctx.workspace);
  const TensorRef y = {scratch, QuantizedActivationType(of, ctx.inputs[0].type)};
  RunCpuOp(ctx, of.c_str(), ctx.inputs.first(ctx.has_input(1) ? 2 : 1), {&y, 1});
  QuantizeOnCpu(ctx, y, kLargest, scratch + AlignedBytes(y.type), ctx.inputs[2], ctx.inputs[3]);
}

int64_t Workspace(const graph::OpCall& call, int /*threads*/) {
  const std::string& of = call.attributes.GetWord("of");
  return AlignedBytes(QuantizedActivationType(of, call.input(0))) +
         static_cast<int64_t>(sizeof(float));
}

const CpuKernelRegistration kQuantizeActivation({"quantize_activation", &QuantizeActivation,
                                                 &Workspace});

}  // namespace
}  // namespace plimsoll::ops
