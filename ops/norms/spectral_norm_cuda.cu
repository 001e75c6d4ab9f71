// Formulas in spectral_norm.h and spectral_norm_cpu.cc. W·x: a block takes a row, a thread four
// neighbouring elements at a time. Wᵀ·u: a thread takes a column, a block 256 columns and a chunk
// of rows. One block then adds the other blocks' sums, always in the same order. Bytes:
// power_iteration 2·n·s, spectral_norm 3·n·s, backward n·s + 3·n·4, and acc.
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/spectral_sums.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kTotalThreads = 1024;
constexpr int kPack = 4;      // elements of a row that a thread loads at once
constexpr int kUnrolled = 4;  // elements of a row that a thread of the gradient takes

// sums[o] = Σ_k W[o,k] · x[o·stride + k], times u[o] if u is not nullptr. A block for each row o.
template <typename S, int N>
__global__ void __launch_bounds__(kThreads)
    RowsKernel(int64_t columns, const S* weight, const float* x, int64_t stride, const float* u,
               float* sums) {
  const S* const row = weight + blockIdx.x * columns;
  const float* const other = x + blockIdx.x * stride;
  float sum = 0;
  for (int64_t k = int64_t{threadIdx.x} * N; k < columns; k += kThreads * N) {
    float a[N], b[N];
    LoadPack<N>(row + k, a);
    LoadPack<N>(other + k, b);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += a[j] * b[j];
  }
  __shared__ float shared[kThreads / kWarp];
  sum = BlockSum<kThreads>(sum, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = u == nullptr ? sum : u[blockIdx.x] * sum;
}

// partials[y,k] = Σ_o W[o,k] · u[o] over the rows o of chunk y.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    ColumnsKernel(int64_t rows, int64_t columns, const S* weight, const float* u, float* partials) {
  const int64_t k = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (k >= columns) return;
  const int64_t begin = blockIdx.y * kSpectralChunk, end = min(begin + kSpectralChunk, rows);
  float sum = 0;
#pragma unroll 8
  for (int64_t o = begin; o < end; ++o) sum += ToFloat(weight[o * columns + k]) * u[o];
  partials[blockIdx.y * columns + k] = sum;
}

// to[n] = x / max(‖x‖, ε), where x[i] is the sum of the chunks' partials[·,i]. Runs as one block.
// With one chunk, `to` may be `partials`.
__global__ void __launch_bounds__(kTotalThreads)
    NormalizeKernel(int64_t n, int64_t chunks, const float* partials, float* to) {
  float squares = 0;
  for (int64_t i = threadIdx.x; i < n; i += kTotalThreads) {
    float x = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) x += partials[chunk * n + i];
    to[i] = x;
    squares += x * x;
  }
  __shared__ float shared[kTotalThreads / kWarp];
  const float length = sqrtf(BlockSum<kTotalThreads>(squares, shared));
  const float least = static_cast<float>(kSpectralEps), norm = length < least ? least : length;
  for (int64_t i = threadIdx.x; i < n; i += kTotalThreads) to[i] /= norm;
}

// The sum of n numbers, computed by one block; written to `kept` as well, unless it is nullptr.
__global__ void __launch_bounds__(kTotalThreads)
    TotalKernel(int64_t n, const float* sums, float* total, float* kept) {
  float sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kTotalThreads) sum += sums[i];
  __shared__ float shared[kTotalThreads / kWarp];
  sum = BlockSum<kTotalThreads>(sum, shared);
  if (threadIdx.x > 0) return;
  *total = sum;
  if (kept != nullptr) *kept = sum;
}

template <typename S>
void MultiplyRows(const CudaContext& ctx, const SpectralSums& size, const float* x, int64_t stride,
                  const float* u, float* sums) {
  const S* const weight = ctx.in<S>(0);
  const bool packs = size.columns % kPack == 0 && Aligned(weight, x);
  const auto kernel = packs ? &RowsKernel<S, kPack> : &RowsKernel<S, 1>;
  kernel<<<static_cast<unsigned>(size.rows), kThreads, 0, ctx.stream>>>(size.columns, weight, x,
                                                                        stride, u, sums);
  gpu::CheckLaunch(ctx.op.name.c_str());
}

void Normalize(const CudaContext& ctx, int64_t n, int64_t chunks, const float* partials,
               float* to) {
  NormalizeKernel<<<1, kTotalThreads, 0, ctx.stream>>>(n, chunks, partials, to);
  gpu::CheckLaunch(ctx.op.name.c_str());
}

void PowerIteration(const CudaContext& ctx) {
  const SpectralSums size(ctx.in_shape(0));
  float *const u = ctx.out<float>(0), *const v = ctx.out<float>(1);
  float* const partials = static_cast<float*>(ctx.workspace);
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    MultiplyRows<S>(ctx, size, ctx.in<float>(1), /*stride=*/0, /*u=*/nullptr, u);
    Normalize(ctx, size.rows, /*chunks=*/1, u, u);
    const dim3 blocks(static_cast<unsigned>((size.columns + kThreads - 1) / kThreads),
                      static_cast<unsigned>(size.chunks));
    ColumnsKernel<<<blocks, kThreads, 0, ctx.stream>>>(size.rows, size.columns, ctx.in<S>(0), u,
                                                       partials);
    gpu::CheckLaunch("power_iteration");
    Normalize(ctx, size.columns, size.chunks, partials, v);
  });
}

// Adds the sums of the rows, which are in the workspace. Returns the address of the total.
const float* TotalOfRows(const CudaContext& ctx, const SpectralSums& size, float* kept) {
  float* const sums = static_cast<float*>(ctx.workspace);
  TotalKernel<<<1, kTotalThreads, 0, ctx.stream>>>(size.rows, sums, sums + size.rows, kept);
  gpu::CheckLaunch(ctx.op.name.c_str());
  return sums + size.rows;
}

struct Quotient {
  const float* divisor;
  __device__ float operator()(float x) const { return x / *divisor; }
};

void SpectralNorm(const CudaContext& ctx) {
  const SpectralSums size(ctx.in_shape(0));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    MultiplyRows<S>(ctx, size, ctx.in<float>(2), /*stride=*/0, ctx.in<float>(1),
                    static_cast<float*>(ctx.workspace));
    const float* const sigma = TotalOfRows(ctx, size, ctx.out<float>(1));
    Map(ctx.stream, "spectral_norm", size.rows * size.columns, Quotient{sigma}, ctx.out<S>(0),
        ctx.in<S>(0));
  });
}

// A block for each row and kThreads · kUnrolled of its elements. `product` is ⟨dy, W⟩; acc may be
// nullptr.
__global__ void __launch_bounds__(kThreads)
    GradientKernel(int64_t columns, const float* u, const float* v, const float* sigma,
                   const float* product, const float* dy, const float* acc, float* dweight) {
  const int64_t row = blockIdx.x, first = row * columns;
  const float norm = *sigma, along = *product / norm * u[row];
  const int64_t begin = int64_t{blockIdx.y} * (kThreads * kUnrolled) + threadIdx.x;
  float gradient[kUnrolled];
#pragma unroll
  for (int j = 0; j < kUnrolled; ++j) {
    const int64_t k = begin + j * kThreads;
    if (k >= columns) continue;
    gradient[j] = (dy[first + k] - along * v[k]) / norm;
    if (acc != nullptr) gradient[j] += acc[first + k];
  }
#pragma unroll
  for (int j = 0; j < kUnrolled; ++j) {
    const int64_t k = begin + j * kThreads;
    if (k < columns) dweight[first + k] = gradient[j];
  }
}

void SpectralNormBackward(const CudaContext& ctx) {
  const SpectralSums size(ctx.in_shape(0));
  const float* const dy = ctx.in<float>(4);
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    MultiplyRows<S>(ctx, size, dy, size.columns, /*u=*/nullptr, static_cast<float*>(ctx.workspace));
  });
  const float* const product = TotalOfRows(ctx, size, /*kept=*/nullptr);
  constexpr int64_t kOfBlock = kThreads * kUnrolled;
  const dim3 blocks(static_cast<unsigned>(size.rows),
                    static_cast<unsigned>((size.columns + kOfBlock - 1) / kOfBlock));
  GradientKernel<<<blocks, kThreads, 0, ctx.stream>>>(size.columns, ctx.in<float>(1),
                                                      ctx.in<float>(2), ctx.in<float>(3), product,
                                                      dy, ctx.in<float>(5), ctx.out<float>(0));
  gpu::CheckLaunch("spectral_norm_backward");
}

const CudaKernelRegistration kPowerIteration({"power_iteration", &PowerIteration});
const CudaKernelRegistration kSpectralNorm({"spectral_norm", &SpectralNorm});
const CudaKernelRegistration kSpectralNormBackward({"spectral_norm_backward",
                                                    &SpectralNormBackward});

}  // namespace
}  // namespace plimsoll::ops
