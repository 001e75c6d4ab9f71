// Two launches. In the first, a block takes a chunk of rows and 16 packs of 16 bytes across; each
// thread takes every 32nd row, with several loads in flight (partial_sums.cuh). The second adds the
// chunks, 32 ways at once, and acc; its blocks are placed on the GPU while the first still runs.
// Bytes: x once; the partial sums, at most a hundredth of it, are written and read.
#include "gpu/check.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/partial_sums.cuh"
#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = kSumThreads;
constexpr int kLoads = 4;  // number of loads that a thread has in flight

template <typename T, int N, int kLanes>
__global__ void __launch_bounds__(kThreads, kSumBlocks)
    PartialSumsKernel(const T* x, int64_t rows, int64_t columns, int64_t chunk, float* partials) {
  constexpr int kRows = kThreads / kLanes;  // number of rows that are read at once
  const int lane = threadIdx.x % kLanes;
  const int64_t column = (int64_t{blockIdx.x} * kLanes + lane) * N;
  const int64_t end = min((int64_t{blockIdx.y} + 1) * chunk, rows);

  float sums[N] = {};
  if (column < columns) {
    int64_t row = int64_t{blockIdx.y} * chunk + threadIdx.x / kLanes;
    for (; row + (kLoads - 1) * kRows < end; row += kLoads * kRows) {
      float values[kLoads][N];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        LoadPack<N>(x + (row + i * kRows) * columns + column, values[i]);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int j = 0; j < N; ++j) sums[j] += values[i][j];
      }
    }
    for (; row < end; row += kRows) {
      float values[N];
      LoadPack<N>(x + row * columns + column, values);
#pragma unroll
      for (int j = 0; j < N; ++j) sums[j] += values[j];
    }
  }
  StorePartialSums<N, kLanes>(sums, columns, partials);
}

__global__ void __launch_bounds__(kWarp* kWarp)
    AddPartialsKernel(const float* partials, int64_t chunks, int64_t columns, const float* acc,
                      float* out) {
  __shared__ float shared[kWarp][kWarp + 1];
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t c = threadIdx.y; c < chunks; c += kWarp) sum += partials[c * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = WarpSum(shared[threadIdx.x][threadIdx.y]);
  const int64_t to = int64_t{blockIdx.x} * kWarp + threadIdx.y;
  if (threadIdx.x == 0 && to < columns) out[to] = acc == nullptr ? sum : sum + acc[to];
}

template <typename T, int N, int kLanes>
void Launch(cudaStream_t stream, const T* x, int64_t rows, int64_t columns, const float* acc,
            float* sums, float* partials, int64_t chunk) {
  const int64_t chunks = (rows + chunk - 1) / chunk;
  if (chunks > 0) {
    const dim3 grid(static_cast<unsigned>((columns + kLanes * N - 1) / (kLanes * N)),
                    static_cast<unsigned>(chunks));
    PartialSumsKernel<T, N, kLanes>
        <<<grid, kThreads, 0, stream>>>(x, rows, columns, chunk, partials);
    gpu::CheckLaunch("partial column sums");
  }
  AddPartialSums(stream, partials, chunks, columns, acc, sums);
}

}  // namespace

void AddPartialSums(cudaStream_t stream, const float* partials, int64_t chunks, int64_t columns,
                    const float* acc, float* sums) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((columns + kWarp - 1) / kWarp));
  config.blockDim = dim3(kWarp, kWarp);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = chunks > 0 ? 1 : 0;
  gpu::Check(cudaLaunchKernelEx(&config, AddPartialsKernel, partials, chunks, columns, acc, sums),
             "column sums");
}

void ColumnSums(cudaStream_t stream, graph::DType dtype, const void* x, int64_t rows,
                int64_t columns, const float* acc, float* sums, void* workspace) {
  if (columns == 0) return;
  DispatchCuda(dtype, [&]<typename T>() {
    const T* const from = static_cast<const T*>(x);
    float* const partials = static_cast<float*>(workspace);
    const int64_t chunk = ColumnSumsChunk(rows, columns);
    constexpr int kPack = kPackSize<T>;
    if (columns % kPack == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0) {
      Launch<T, kPack, kSumLanes>(stream, from, rows, columns, acc, sums, partials, chunk);
    } else {
      Launch<T, 1, kSumLanesSingle>(stream, from, rows, columns, acc, sums, partials, chunk);
    }
  });
}

}  // namespace plimsoll::ops
