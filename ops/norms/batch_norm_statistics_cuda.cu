// batch_norm_statistics: a thread computes mean and Σ(x − mean)² of eight values at a time and
// merges them with those before. Threads are merged in shared memory, and chunks of rows by a
// second kernel (Chan et al. 1979), always in one order. Bytes for N elements: N·s.
//
// merge_batch_norm_statistics and its gradient: one thread for each channel.
#include "ops/cuda/batch_norm_columns.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/batch_norm_partials.h"

namespace plimsoll::ops {
namespace {

// The moments of `count` values.
struct Moments {
  float count = 0, mean = 0, squares = 0;  // squares: Σ(x − mean)²

  __device__ void Merge(const Moments& other) {
    if (other.count == 0) return;
    const float all = count + other.count, d = other.mean - mean;
    mean += d * (other.count / all);
    squares += other.squares + d * d * (count * (other.count / all));
    count = all;
  }
};

constexpr int kValuesAtOnce = 8;  // number of values of a channel that a thread loads at once

// The number of rows of block `block` of `blocks`, which takes every `blocks`-th step of `step`
// rows.
__device__ int64_t RowsOfBlock(int64_t rows, int64_t step, int64_t block, int64_t blocks) {
  const int64_t steps = (rows + step - 1) / step;
  if (block >= steps) return 0;
  const int64_t all = (steps - block + blocks - 1) / blocks * step;
  return (steps - 1) % blocks == block ? all - (steps * step - rows) : all;
}

// Grid: (columns, chunks, groups). partials is [chunks][groups][2][columns].
template <int N, int kAcross, typename T>
__global__ void __launch_bounds__(kNormThreads, 2)
    MomentsKernel(const T* x, int64_t rows, int64_t columns, float* partials) {
  using Steps = RowSteps<kAcross, kValuesAtOnce>;
  constexpr int kDown = Steps::kDown, kWide = kNormWide<N>;
  __shared__ float means[kDown][N][kAcross], squares[kDown][N][kAcross];
  LetDependentsLaunch();
  const int lane = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  const int64_t first = int64_t{blockIdx.x} * kAcross * N, column = first + lane * N;
  const int64_t group = blockIdx.z;
  float mean[N] = {}, square[N] = {}, count = 0;
  if (column < columns) {
    const T* const from = x + group * rows * columns + column;
    // Adds the moments of several values, which are computed separately first.
    const auto add = [&]<int kValues>(const Pack<T, N>(&packs)[kValues]) {
      const float share = kValues / (count + kValues);
#pragma unroll
      for (int i = 0; i < N; i += kWide) {
        float values[kValues][kWide];
#pragma unroll
        for (int k = 0; k < kValues; ++k) PartOf(packs[k], i, values[k]);
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          float middle = 0, around = 0;
#pragma unroll
          for (int k = 0; k < kValues; ++k) middle += values[k][w];
          middle *= 1.0f / kValues;
#pragma unroll
          for (int k = 0; k < kValues; ++k) {
            const float d = values[k][w] - middle;
            around += d * d;
          }
          const float d = middle - mean[i + w];
          mean[i + w] += d * share;
          square[i + w] += around + d * d * (count * share);
        }
      }
      count += kValues;
    };
    Steps::ForEach(rows, blockIdx.y, gridDim.y, /*from_end=*/true, [&](int64_t row) {
      if (row + (kValuesAtOnce - 1) * kDown < rows) {
        Pack<T, N> packs[kValuesAtOnce];
#pragma unroll
        for (int k = 0; k < kValuesAtOnce; ++k) {
          packs[k] = ReadPack<N>(from + (row + k * kDown) * columns);
        }
        add(packs);
        return;
      }
      for (; row < rows; row += kDown) {
        const Pack<T, N> packs[1] = {ReadPack<N>(from + row * columns)};
        add(packs);
      }
    });
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    means[down][i][lane] = mean[i];
    squares[down][i][lane] = square[i];
  }
  __syncthreads();
  const int64_t of_block = RowsOfBlock(rows, Steps::kRows, blockIdx.y, gridDim.y);
  for (int i = static_cast<int>(threadIdx.x); i < kAcross * N; i += kNormThreads) {
    const int64_t to = first + i;
    if (to >= columns) continue;
    Moments all;
    for (int d = 0; d < kDown; ++d) {
      // Steps consist of complete rounds of kDown rows; only the last step may end earlier.
      const int64_t taken = of_block > d ? (of_block - d + kDown - 1) / kDown : 0;
      all.Merge({static_cast<float>(taken), means[d][i % N][i / N], squares[d][i % N][i / N]});
    }
    float* const partial = partials + (blockIdx.y * int64_t{gridDim.z} + group) * 2 * columns + to;
    partial[0] = all.mean;
    partial[columns] = all.squares;
  }
}

// A block has 32 channels of all groups; its 32 warps take every 32nd chunk.
__global__ void __launch_bounds__(kWarp* kWarp)
    MergeChunksKernel(const float* partials, int64_t groups, int64_t rows, int64_t columns,
                      int64_t step, int64_t chunks, float* mean, float* variance, float* unbiased) {
  __shared__ Moments shared[kWarp][kWarp];
  AwaitFirstStage();
  const int64_t channel = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const bool there = channel < groups * columns;
  const int64_t group = there ? channel / columns : 0, column = channel - group * columns;
  Moments all;
  if (there) {
#pragma unroll 4
    for (int64_t c = threadIdx.y; c < chunks; c += kWarp) {
      const float* const partial = partials + (c * groups + group) * 2 * columns + column;
      all.Merge(
          {static_cast<float>(RowsOfBlock(rows, step, c, chunks)), partial[0], partial[columns]});
    }
  }
  shared[threadIdx.y][threadIdx.x] = all;
  for (int half = kWarp / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      all.Merge(shared[threadIdx.y + half][threadIdx.x]);
      shared[threadIdx.y][threadIdx.x] = all;
    }
  }
  if (!there || threadIdx.y > 0) return;
  mean[channel] = all.mean;
  variance[channel] = all.squares / static_cast<float>(rows);
  if (unbiased != nullptr) unbiased[channel] = all.squares / static_cast<float>(rows - 1);
}

void Statistics(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.out_shape(0).dim(0), 2);
  float* const partials = static_cast<float*>(ctx.workspace);
  int64_t step = 0;  // number of rows
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T* const x = ctx.in<T>(0);
    WithPacks<T>(by.columns, Aligned(x), [&]<int N, int kAcross>() {
      const dim3 grid(BlocksAcross<N, kAcross>(by.columns), static_cast<unsigned>(by.chunks),
                      static_cast<unsigned>(by.groups));
      MomentsKernel<N, kAcross>
          <<<grid, kNormThreads, 0, ctx.stream>>>(x, by.rows, by.columns, partials);
      gpu::CheckLaunch("batch_norm_statistics");
      step = RowSteps<kAcross, kValuesAtOnce>::kRows;
    });
  });
  const int64_t channels = by.groups * by.columns;
  LaunchDependent(MergeChunksKernel, dim3(static_cast<unsigned>((channels + kWarp - 1) / kWarp)),
                  dim3(kWarp, kWarp), ctx, static_cast<const float*>(partials), by.groups, by.rows,
                  by.columns, step, by.chunks, ctx.out<float>(0), ctx.out<float>(1),
                  ctx.out<float>(2));
}

// Merges the statistics that a few ranks have of a channel.
template <typename T>
struct MergeTerms {
  const T *means, *variances;
  int64_t sets, columns;
  float all;                      // number of values
  T *mean, *variance, *unbiased;  // `unbiased` may be nullptr
  __device__ void operator()(int64_t column) const {
    float middle = 0, within = 0;
    for (int64_t r = 0; r < sets; ++r) middle += ToFloat(means[r * columns + column]);
    middle /= static_cast<float>(sets);
    for (int64_t r = 0; r < sets; ++r) {
      const float d = ToFloat(means[r * columns + column]) - middle;
      within += ToFloat(variances[r * columns + column]) + d * d;
    }
    within /= static_cast<float>(sets);
    mean[column] = FromFloat<T>(middle);
    variance[column] = FromFloat<T>(within);
    if (unbiased != nullptr) unbiased[column] = FromFloat<T>(within * (all / (all - 1)));
  }
};

void Merge(const CudaContext& ctx) {
  const int64_t sets = ctx.in_shape(0).dim(0), columns = ctx.in_shape(0).dim(1);
  const auto all = static_cast<float>(sets * ctx.attributes.GetInt("n"));
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    ForChannels(ctx, columns,
                MergeTerms<T>{ctx.in<T>(0), ctx.in<T>(1), sets, columns, all, ctx.out<T>(0),
                              ctx.out<T>(1), ctx.out<T>(2)});
  });
}

// Handles one channel of one rank.
template <typename T>
struct MergeGradientTerms {
  const T *means, *mean, *dmean, *dvariance;  // the last two may be nullptr
  int64_t sets, columns;
  T *dmeans, *dvariances;  // may be nullptr
  __device__ void operator()(int64_t i) const {
    const int64_t column = i % columns;
    const auto share = [&](const T* gradient) {
      return gradient == nullptr ? 0 : ToFloat(gradient[column]) / static_cast<float>(sets);
    };
    const float of_variance = share(dvariance);
    const float d = ToFloat(means[i]) - ToFloat(mean[column]);
    if (dmeans != nullptr) dmeans[i] = FromFloat<T>(share(dmean) + 2 * of_variance * d);
    if (dvariances != nullptr) dvariances[i] = FromFloat<T>(of_variance);
  }
};

void MergeBackward(const CudaContext& ctx) {
  const int64_t sets = ctx.in_shape(0).dim(0), columns = ctx.in_shape(0).dim(1);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    ForChannels(ctx, sets * columns,
                MergeGradientTerms<T>{ctx.in<T>(0), ctx.in<T>(1), ctx.in<T>(2), ctx.in<T>(3), sets,
                                      columns, ctx.out<T>(0), ctx.out<T>(1)});
  });
}

const CudaKernelRegistration kStatistics({"batch_norm_statistics", &Statistics});
const CudaKernelRegistration kMerge({"merge_batch_norm_statistics", &Merge});
const CudaKernelRegistration kMergeBackward({"merge_batch_norm_statistics_backward",
                                             &MergeBackward});

}  // namespace
}  // namespace plimsoll::ops
