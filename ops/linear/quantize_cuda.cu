// codes = round(x · to_code), and the same transposed; sums of x's columns (ops/linear/quantize.h)
//
// One kernel reads x once and writes all results, in tiles (ops/cuda/quantize_tiles.cuh). If only
// codes are requested, no tiles are needed: threads take 8 elements, several times.
//
// Bytes: x once, codes once each; the partial sums, 1/32 of x in bf16, are written and read.
#include "base/float8.h"
#include "gpu/check.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/float8_codes.cuh"
#include "ops/cuda/quantize_tiles.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/quantize.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops {
namespace {

using namespace cast_tiles;

// A source that reads a tensor in memory.
template <typename T>
struct Stored {
  using Element = T;
  static constexpr int kParts = 1, kRows = kSide;
  static constexpr bool kFindsLargest = false;
  using Loaded = Eight<T>;

  const T* x;

  template <bool kEven>
  __device__ Loaded Load(int64_t row, int64_t column, int64_t width, int64_t count) const {
    return LoadSome<kEven>(x + row * width + column, count);
  }
  static __device__ void Make(const Loaded& loaded, Eight<T> (&made)[1]) { made[0] = loaded; }
};

constexpr int kEights = 4;  // groups of 8 elements that a thread has in flight

// Writes only codes: n elements, in any shape.
template <typename T, typename Code>
__global__ void __launch_bounds__(kThreads) CastKernel(const T* x, int64_t n, Cast cast) {
  const int64_t first = int64_t{FromTheEnd()} * (kThreads * kEights) + threadIdx.x;
  Eight<T> loaded[kEights];
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = (first + i * kThreads) * kSide;
    if (at + kSide <= n) loaded[i] = LoadEight(x + at);
  }
  const float to_code = ReadScale<Code>(cast).to_code;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = (first + i * kThreads) * kSide;
    if (at >= n) return;
    const bool whole = at + kSide <= n;
    if (!whole) loaded[i] = LoadSome<false>(x + at, n - at);
    float numbers[kSide];
    ToFloats(loaded[i], numbers);
    const uint2 codes = EightCodes<Code>(numbers, to_code);
    if (whole) {
      StoreSome<true>(cast.codes + at, codes, kSide);
    } else {
      StoreSome<false>(cast.codes + at, codes, n - at);
    }
  }
}

template <typename Code>
__global__ void ScaleKernel(Cast cast) {
  ReadScale<Code>(cast);
}

template <typename T, typename Code>
void Launch(cudaStream_t stream, const T* x, const Cast& cast) {
  const bool transposed = cast.transposed != nullptr, sums = cast.partials != nullptr;
  const int64_t n = cast.rows * cast.columns;
  if (n == 0 || (!transposed && !sums && cast.codes == nullptr)) {
    if (cast.scale != nullptr) ScaleKernel<Code><<<1, 1, 0, stream>>>(cast);
  } else if (!transposed && !sums) {
    constexpr int64_t kOfBlock = int64_t{kThreads} * kEights * kSide;
    CastKernel<T, Code>
        <<<static_cast<unsigned>((n + kOfBlock - 1) / kOfBlock), kThreads, 0, stream>>>(x, n, cast);
  } else {
    using Source = Stored<T>;
    auto* kernel = &CastTilesKernel<Source, Code, true, true, false>;
    if (cast.columns % kSide == 0) {
      kernel = !sums         ? &CastTilesKernel<Source, Code, true, false, true>
               : !transposed ? &CastTilesKernel<Source, Code, false, true, true>
                             : &CastTilesKernel<Source, Code, true, true, true>;
    }
    kernel<<<CastBlocks<Source>(cast), kThreads, 0, stream>>>(Source{x}, cast);
  }
  gpu::CheckLaunch("quantize");
}

void Quantize(const CudaContext& ctx) {
  const graph::Shape& x = ctx.in_shape(0);
  Cast cast{};
  cast.rows = x.rows();
  cast.columns = x.dim(-1);
  cast.padded = TransposedRow(cast.rows);
  cast.transposed = ctx.out<uint8_t>(0);
  cast.codes = ctx.out<uint8_t>(1);
  cast.scale = ctx.out<float>(2);
  cast.largest = ctx.in<uint32_t>(1);
  if (ctx.has_input(3)) cast.expected = ctx.in<uint32_t>(3) + ctx.attributes.GetInt("index");
  if (ctx.has_output(3)) cast.partials = static_cast<float*>(ctx.workspace);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    if (graph::ParseDType(ctx.attributes.GetWord("dtype")) == graph::DType::kFloat8E4M3) {
      Launch<T, Float8E4M3>(ctx.stream, ctx.in<T>(0), cast);
    } else {
      Launch<T, Float8E5M2>(ctx.stream, ctx.in<T>(0), cast);
    }
  });
  if (ctx.has_output(3) && cast.columns > 0) {
    AddPartialSums(ctx.stream, cast.partials, QuantizeTiles(cast.rows), cast.columns,
                   ctx.in<float>(2), ctx.out<float>(3));
  }
}

const CudaKernelRegistration kQuantize({"quantize", &Quantize});

}  // namespace
}  // namespace plimsoll::ops
