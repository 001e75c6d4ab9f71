// y = x_scale · weight_scale · x · weightᵀ + bias + acc, of 8-bit codes
// (ops/linear/scaled_linear.h).
//
// bf16 and float16 can represent the number of every code exactly. Both operands are widened into
// the workspace, multiplied in the wider type, summed in float32 and rounded once.
//
// The bytes that are read and written: the codes once, their widened values in the workspace (two
// bytes for each code), y once, and what GEMM packs.
#include <algorithm>
#include <array>

#include "base/float8.h"
#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"
#include "ops/linear/gemm_workspace.h"
#include "ops/linear/low_gradient_cpu.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::OpCall;
using graph::Shape;

constexpr size_t kBias = 4, kAcc = 5, kRng = 6;

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename Wide>
Wide Widen(float value) {
  if constexpr (std::is_same_v<Wide, BFloat16>) return {ToBf16(value)};
  if constexpr (std::is_same_v<Wide, Float16>) return {ToF16(value)};
}

// The number of each code.
template <typename Wide>
std::array<Wide, 256> Numbers(DType dtype) {
  std::array<Wide, 256> numbers;
  for (int i = 0; i < 256; ++i) {
    const auto bits = static_cast<uint8_t>(i);
    numbers[static_cast<size_t>(i)] = Widen<Wide>(
        dtype == DType::kFloat8E4M3 ? ToFloat(Float8E4M3{bits}) : ToFloat(Float8E5M2{bits}));
  }
  return numbers;
}

template <typename Wide>
Wide* WidenAll(const CpuContext& ctx, size_t input, char*& workspace) {
  const std::array<Wide, 256> numbers = Numbers<Wide>(ctx.inputs[input].type.dtype);
  const uint8_t* const codes = ctx.in<uint8_t>(input);
  Wide* const wide = reinterpret_cast<Wide*>(workspace);
  const int64_t n = ctx.in_shape(input).elements();
  ctx.pool.ParallelFor(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) wide[i] = numbers[codes[i]];
  });
  workspace += Aligned(n * int64_t{sizeof(Wide)});
  return wide;
}

// `to`: where the product is written. With `add`, acc is added before rounding.
template <typename Wide, typename Result>
void Multiply(const CpuContext& ctx, Result* to, bool add, char* workspace) {
  const char* const begin = static_cast<char*>(ctx.workspace);
  cpu::GemmArgs<Wide, Wide, Result> args;
  args.trans_b = true;
  args.m = ctx.in_shape(0).rows();
  args.n = ctx.in_shape(1).dim(0);
  args.k = args.lda = args.ldb = ctx.in_shape(1).dim(1);
  args.ldc = args.n;
  args.a = WidenAll<Wide>(ctx, 0, workspace);
  args.b = WidenAll<Wide>(ctx, 1, workspace);
  args.c = to;
  args.alpha = *ctx.in<float>(2) * *ctx.in<float>(3);
  args.bias = ctx.adds_once() ? ctx.in<Result>(kBias) : nullptr;
  if (add) {
    const Result* const acc = ctx.in<Result>(kAcc);
    args.beta = 1;
    if (acc != to) {
      ctx.pool.ParallelFor(args.m * args.n, kElementwiseGrain, [=](int64_t from, int64_t end) {
        std::copy(acc + from, acc + end, to + from);
      });
    }
  }
  cpu::Gemm(ctx.pool, args, workspace, ctx.workspace_bytes - (workspace - begin));
}

// The bytes of the product in float32, at the beginning of the workspace, for a low gradient.
int64_t WideBytes(const OpCall& call) {
  if (!call.attributes.Has("low_gradient")) return 0;
  return Aligned(call.input(0).shape.rows() * call.input(1).shape.dim(0) * int64_t{sizeof(float)});
}

void ScaledLinear(const CpuContext& ctx) {
  char* const workspace = static_cast<char*>(ctx.workspace);
  const bool add = ctx.has_input(kAcc);
  if (ctx.attributes.Has("low_gradient")) {
    auto* const wide = reinterpret_cast<float*>(workspace);
    const int64_t bytes = Aligned(ctx.out_shape(0).elements() * int64_t{sizeof(float)});
    Multiply<BFloat16>(ctx, wide, /*add=*/false, workspace + bytes);
    return StoreLowGradient(ctx, wide, kAcc, kRng, 0);
  }
  switch (ctx.outputs[0].type.dtype) {
    case DType::kFloat32:
      return Multiply<BFloat16>(ctx, ctx.out<float>(0), add, workspace);
    case DType::kBFloat16:
      return Multiply<BFloat16>(ctx, ctx.out<BFloat16>(0), add, workspace);
    default:
      return Multiply<Float16>(ctx, ctx.out<Float16>(0), add, workspace);
  }
}

int64_t ScaledLinearWorkspace(const OpCall& call, int /*threads*/) {
  const Shape &x = call.input(0).shape, &weight = call.input(1).shape;
  const bool low = call.attributes.Has("low_gradient");
  const DType result = low ? DType::kFloat32 : *graph::ParseDType(call.attributes.GetWord("dtype"));
  constexpr int64_t kWide = 2;  // bytes of a widened code
  return WideBytes(call) + Aligned(x.elements() * kWide) + Aligned(weight.elements() * kWide) +
         GemmBytes(result, x.rows(), weight.dim(0), weight.dim(1));
}

const CpuKernelRegistration kScaledLinear({"scaled_linear", &ScaledLinear, &ScaledLinearWorkspace});

}  // namespace
}  // namespace plimsoll::ops
