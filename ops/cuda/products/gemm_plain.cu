// One thread per element of D; blocks of 16 × 16 share tiles of 16 × 16 of both operands, so each
// is read from memory n/16 and m/16 times. The order of sums depends on k alone.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/gelu.cuh"
#include "ops/cuda/products/gemm_forms.h"

namespace plimsoll::ops {
namespace {

constexpr int kTile = 16;

template <typename T, typename R>
struct Arguments {
  GemmProblem problem;
  const T* a;
  const T* b;
  const R* c;
  R* d;
  const R* bias;
  const R* aux;
};

template <typename R>
__device__ float Epilogue(GemmEpilogue epilogue, float x, const R* bias, int64_t column,
                          const R* aux) {
  switch (epilogue) {
    case GemmEpilogue::kBias:
      return x + ToFloat(bias[column]);
    case GemmEpilogue::kGeluGradient:
      return x * GeluTanhGradient(ToFloat(*aux));
    default:
      return x;
  }
}

template <typename T, typename R>
__global__ void PlainGemmKernel(Arguments<T, R> args) {
  __shared__ float a_tile[kTile][kTile + 1];
  __shared__ float b_tile[kTile][kTile + 1];
  const GemmProblem& p = args.problem;
  const int64_t tiles_n = (p.n + kTile - 1) / kTile;
  const int64_t row = blockIdx.x / tiles_n * kTile + threadIdx.y;
  const int64_t column = blockIdx.x % tiles_n * kTile + threadIdx.x;
  for (int64_t batch = blockIdx.y; batch < p.batch; batch += gridDim.y) {
    const T* const a = args.a + batch * p.stride_a;
    const T* const b = args.b + batch * p.stride_b;
    float sum = 0;
    for (int64_t k = 0; k < p.k; k += kTile) {
      const int64_t ka = k + threadIdx.x;
      const int64_t kb = k + threadIdx.y;
      a_tile[threadIdx.y][threadIdx.x] =
          row < p.m && ka < p.k ? ToFloat(a[p.trans_a ? ka * p.lda + row : row * p.lda + ka]) : 0;
      b_tile[threadIdx.y][threadIdx.x] =
          column < p.n && kb < p.k
              ? ToFloat(b[p.trans_b ? column * p.ldb + kb : kb * p.ldb + column])
              : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
      __syncthreads();
    }
    if (row < p.m && column < p.n) {
      const int64_t i = batch * p.stride_c + row * p.ldc + column;
      float x = p.alpha * sum;
      if (p.beta != 0) x += p.beta * ToFloat(args.c[i]);
      const R* const aux = args.aux == nullptr ? nullptr : args.aux + i;
      args.d[i] = FromFloat<R>(Epilogue(p.epilogue, x, args.bias, column, aux));
    }
  }
}

template <typename T, typename R>
void Launch(cudaStream_t stream, const GemmProblem& p, const GemmBuffers& buffers) {
  const Arguments<T, R> args{p,
                             static_cast<const T*>(buffers.a),
                             static_cast<const T*>(buffers.b),
                             static_cast<const R*>(buffers.c),
                             static_cast<R*>(buffers.d),
                             static_cast<const R*>(buffers.bias),
                             static_cast<const R*>(buffers.aux)};
  const int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile);
  const dim3 grid(static_cast<unsigned>(tiles),
                  static_cast<unsigned>(std::min<int64_t>(p.batch, 65535)));
  PlainGemmKernel<T, R><<<grid, dim3(kTile, kTile), 0, stream>>>(args);
  gpu::CheckLaunch("plain matrix product");
  if (p.epilogue == GemmEpilogue::kSums) {
    ColumnSums(stream, p.operands, buffers.a, p.k, p.m, buffers.old_sums, buffers.sums,
               buffers.workspace);
  }
}

}  // namespace

void PlainGemm(cudaStream_t stream, const GemmProblem& problem, const GemmBuffers& buffers) {
  DispatchCuda(problem.operands, [&]<typename T>() {
    if (problem.result == problem.operands) return Launch<T, T>(stream, problem, buffers);
    Launch<T, float>(stream, problem, buffers);
  });
}

}  // namespace plimsoll::ops
