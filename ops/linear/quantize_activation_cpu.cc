// Runs the kernels of the ops that it replaces, and so has their bits
// (ops/linear/quantize_activation.h). Their intermediate results are in the workspace: y, the
// numbers of `a` if `a` has codes, and the largest magnitude, unless it is an output.
#include <array>
#include <span>

#include "ops/kernel.h"
#include "ops/linear/quantize_activation.h"
#include "ops/linear/quantize_cpu.h"

namespace plimsoll::ops {
namespace {

constexpr size_t kAScale = 4;   // index of the input
constexpr size_t kLargest = 4;  // index of the output

struct Scratch {
  graph::TensorType y, a;
  int64_t a_at, largest_at;
};

Scratch ScratchOf(const graph::TensorType& a, const graph::Attributes& attributes) {
  Scratch scratch;
  scratch.a = NumbersOfActivation(a, attributes);
  scratch.y = QuantizedActivationType(attributes.GetWord("of"), scratch.a);
  scratch.a_at = AlignedBytes(scratch.y);
  scratch.largest_at = scratch.a_at + (scratch.a == a ? 0 : AlignedBytes(scratch.a));
  return scratch;
}

void QuantizeActivation(const CpuContext& ctx) {
  const Scratch scratch = ScratchOf(ctx.inputs[0].type, ctx.attributes);
  auto* const at = static_cast<std::byte*>(ctx.workspace);
  std::array operands = {ctx.inputs[0], ctx.has_input(1) ? ctx.inputs[1] : TensorRef{}};
  if (ctx.has_input(kAScale)) {
    operands[0] = {at + scratch.a_at, scratch.a};
    const std::array codes = {ctx.inputs[0], ctx.inputs[kAScale]};
    RunCpuOp(ctx, "dequantize", codes, {operands.data(), 1});
  }
  const TensorRef y = {at, scratch.y};
  RunCpuOp(ctx, ctx.attributes.GetWord("of").c_str(),
           std::span(operands).first(ctx.has_input(1) ? 2 : 1), {&y, 1});
  QuantizeOnCpu(ctx, y, kLargest, at + scratch.largest_at, ctx.inputs[2], ctx.inputs[3]);
}

int64_t Workspace(const graph::OpCall& call, int /*threads*/) {
  return ScratchOf(call.input(0), call.attributes).largest_at + static_cast<int64_t>(sizeof(float));
}

const CpuKernelRegistration kQuantizeActivation({"quantize_activation", &QuantizeActivation,
                                                 &Workspace});

}  // namespace
}  // namespace plimsoll::ops
