// codes = round(x · to_code), and the same transposed; sums of x's columns (ops/linear/quantize.h).
//
// Threads share groups of 16 rows, whose codes are 16 consecutive bytes in each transposed row; if
// only codes are requested, they share chunks of elements. Bytes: x once for codes and once for
// sums, codes once each.
#include <bit>

#include "base/float8.h"
#include "ops/kernel.h"
#include "ops/linear/code_scale.h"
#include "ops/linear/quantize.h"
#include "ops/reductions/cpu_column_sums.h"
#include "ops/reductions/cpu_largest.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr int64_t kGroup = TransposedRow(1);

template <typename Code>
Code ToCode(float x);
template <>
Float8E4M3 ToCode(float x) {
  return ToE4M3(x);
}
template <>
Float8E5M2 ToCode(float x) {
  return ToE5M2(x);
}

template <typename S, typename Code>
void Encode(const CpuContext& ctx, float to_code) {
  const S* const x = ctx.in<S>(0);
  Code* const transposed = ctx.out<Code>(0);
  Code* const codes = ctx.out<Code>(1);
  if (transposed == nullptr) {
    if (codes == nullptr) return;
    ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                         [=](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             codes[i] = ToCode<Code>(AsFloat(x[i]) * to_code);
                           }
                         });
    return;
  }
  const int64_t rows = ctx.in_shape(0).rows(), columns = ctx.in_shape(0).dim(-1);
  const int64_t padded = TransposedRow(rows);
  ctx.pool.ParallelFor(padded / kGroup, 1, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t r = group * kGroup; r < (group + 1) * kGroup; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          Code code{};
          if (r < rows) code = ToCode<Code>(AsFloat(x[r * columns + c]) * to_code);
          if (codes != nullptr && r < rows) codes[r * columns + c] = code;
          transposed[c * padded + r] = code;
        }
      }
    }
  });
}

template <typename S>
void Run(const CpuContext& ctx) {
  const int64_t rows = ctx.in_shape(0).rows(), columns = ctx.in_shape(0).dim(-1);
  auto largest = std::bit_cast<uint32_t>(*ctx.in<float>(1));
  if (ctx.has_input(3)) {
    const float expected = ctx.in<float>(3)[ctx.attributes.GetInt("index")];
    largest = MagnitudeFor(largest, std::bit_cast<uint32_t>(expected));
  }
  const DType dtype = *graph::ParseDType(ctx.attributes.GetWord("dtype"));
  const CodeScale scale = ScaleOf(largest, LargestCode(dtype));
  if (ctx.has_output(2)) *ctx.out<float>(2) = scale.to_number;
  if (dtype == DType::kFloat8E4M3) {
    Encode<S, Float8E4M3>(ctx, scale.to_code);
  } else {
    Encode<S, Float8E5M2>(ctx, scale.to_code);
  }
  if (ctx.has_output(3)) {
    ColumnSums(ctx.in<S>(0), rows, columns, columns, ctx.in<float>(2), ctx.out<float>(3), ctx.pool);
  }
}

void Quantize(const CpuContext& ctx) {
  switch (ctx.inputs[0].type.dtype) {
    case DType::kFloat32:
      return Run<float>(ctx);
    case DType::kBFloat16:
      return Run<BFloat16>(ctx);
    default:
      return Run<Float16>(ctx);
  }
}

const CpuKernelRegistration kQuantize({"quantize", &Quantize});

}  // namespace
}  // namespace plimsoll::ops
