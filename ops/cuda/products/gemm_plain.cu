// One thread per element of D. Blocks of 16 × 16 threads share tiles of 16 × 16 of both operands,
// so these are read from memory n/16 and m/16 times. The order of sums depends only on k.
#include <algorithm>

#include "base/float8.h"
#include "gpu/check.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/gelu.cuh"
#include "ops/cuda/products/gemm_forms.h"

namespace plimsoll::ops {
namespace {

constexpr int kTile = 16;

// The elements of a matrix of numbers.
template <typename T>
struct Numbers {
  Numbers(const void* from, graph::DType) : data(static_cast<const T*>(from)) {}
  __device__ float operator[](int64_t i) const { return ToFloat(data[i]); }

  const T* data;
};

struct Code {};  // e4m3 or e5m2

template <>
struct Numbers<Code> {
  Numbers(const void* from, graph::DType dtype)
      : data(static_cast<const uint8_t*>(from)), e5m2(dtype == graph::DType::kFloat8E5M2) {}
  __device__ float operator[](int64_t i) const {
    return e5m2 ? ToFloat(Float8E5M2{data[i]}) : ToFloat(Float8E4M3{data[i]});
  }

  const uint8_t* data;
  bool e5m2;
};

template <typename T, typename R>
struct Arguments {
  GemmProblem problem;
  Numbers<T> a;
  Numbers<T> b;
  const float* scale_a;
  const float* scale_b;
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
    const int64_t a = batch * p.stride_a, b = batch * p.stride_b;
    float sum = 0;
    for (int64_t k = 0; k < p.k; k += kTile) {
      const int64_t ka = k + threadIdx.x;
      const int64_t kb = k + threadIdx.y;
      a_tile[threadIdx.y][threadIdx.x] =
          row < p.m && ka < p.k ? args.a[a + (p.trans_a ? ka * p.lda + row : row * p.lda + ka)] : 0;
      b_tile[threadIdx.y][threadIdx.x] =
          column < p.n && kb < p.k
              ? args.b[b + (p.trans_b ? column * p.ldb + kb : kb * p.ldb + column)]
              : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
      __syncthreads();
    }
    if (row < p.m && column < p.n) {
      const int64_t i = batch * p.stride_c + row * p.ldc + column;
      float alpha = p.alpha;
      if (args.scale_a != nullptr) alpha *= *args.scale_a;
      if (args.scale_b != nullptr) alpha *= *args.scale_b;
      float x = alpha * sum;
      if (p.beta != 0) x += p.beta * ToFloat(args.c[i]);
      const R* const aux = args.aux == nullptr ? nullptr : args.aux + i;
      args.d[i] = FromFloat<R>(Epilogue(p.epilogue, x, args.bias, column, aux));
    }
  }
}

template <typename T, typename R>
void Launch(cudaStream_t stream, const GemmProblem& p, const GemmBuffers& buffers) {
  const Arguments<T, R> args{p,
                             {buffers.a, p.type_a},
                             {buffers.b, p.type_b},
                             buffers.scale_a,
                             buffers.scale_b,
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
    ColumnSums(stream, p.type_a, buffers.a, p.k, p.m, buffers.old_sums, buffers.sums,
               buffers.workspace);
  }
}

}  // namespace

void PlainGemm(cudaStream_t stream, const GemmProblem& problem, const GemmBuffers& buffers) {
  if (problem.of_codes()) {
    return DispatchCuda(problem.result,
                        [&]<typename R>() { Launch<Code, R>(stream, problem, buffers); });
  }
  DispatchCuda(problem.type_a, [&]<typename T>() {
    if (problem.result == problem.type_a) return Launch<T, T>(stream, problem, buffers);
    Launch<T, float>(stream, problem, buffers);
  });
}

}  // namespace plimsoll::ops
