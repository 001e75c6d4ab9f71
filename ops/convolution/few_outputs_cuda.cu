// With x[M,K], weight[N,K], N ≤ 8:
//   y[m,n] = Σ_k x[m,k] · weight[n,k] + bias[n]
//   dx[m,k] = Σ_n dy[m,n] · weight[n,k] + acc
//   dweight[n,k] = Σ_m dy[m,n] · x[m,k] + acc
//
// K / pack neighbouring threads share a row. Each has the weights of its 16 bytes of channels in
// registers, and continues with later rows. y is summed over these threads by shuffles. dweight is
// summed by a thread over its rows, by a block in shared memory, and over the blocks by a second
// kernel, always in one order.
//
// Bytes: every argument once.
#include <algorithm>

#include "gpu/check.h"
#include "ops/convolution/conv_kernels_cuda.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kMostOutputs = 8;
constexpr int64_t kMostInputs = 256;  // so that a row has at most 32 threads in 16 bits
constexpr int64_t kSumBlocks = 264;   // two blocks on each of 132 multiprocessors
static_assert(kSumBlocks * kMostOutputs * kMostInputs * 4 <= kGemmWorkspaceBytes);

// The first row of a thread, and its channels.
template <typename T>
struct Lane {
  static constexpr int N = kPackSize<T>;
  int across, lane;  // the number of threads of a row, and the index of this thread
  int64_t row, step, channel;

  __device__ explicit Lane(int64_t inputs)
      : across(static_cast<int>(inputs) / N),
        lane(static_cast<int>(threadIdx.x) % across),
        row((int64_t{blockIdx.x} * kThreads + threadIdx.x) / across),
        step(int64_t{gridDim.x} * kThreads / across),
        channel(int64_t{lane} * N) {}
};

// Loads the weights of a thread's channels; those of outputs that do not exist are 0.
template <typename T, int kOutputs, int N>
__device__ void LoadWeights(const T* weight, int outputs, int64_t inputs, int64_t channel,
                            float (&to)[kOutputs][N]) {
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[n][i] = 0;
    if (n < outputs) LoadPack<N>(weight + n * inputs + channel, to[n]);
  }
}

template <int kOutputs, typename T>
__device__ void LoadRow(const T* dy, int64_t row, int outputs, float (&to)[kOutputs]) {
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) to[n] = n < outputs ? ToFloat(dy[row * outputs + n]) : 0;
}

// Computes y. bias may be nullptr. All threads of a warp take part in the shuffles.
template <int kOutputs, typename T>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(const T* x, const T* weight, const T* bias, int64_t rows, int64_t inputs,
                  int outputs, T* y) {
  constexpr int N = kPackSize<T>;
  const Lane<T> at(inputs);
  float weights[kOutputs][N];
  LoadWeights(weight, outputs, inputs, at.channel, weights);
  const int64_t turns = (rows + at.step - 1) / at.step;
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t row = at.row + turn * at.step;
    float values[N] = {}, sums[kOutputs] = {};
    if (row < rows) LoadPack<N>(x + row * inputs + at.channel, values);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[n] += values[i] * weights[n][i];
      for (int offset = 1; offset < at.across; offset *= 2) {
        sums[n] += __shfl_xor_sync(~0u, sums[n], offset);
      }
      const bool writes = row < rows && n < outputs && n % at.across == at.lane;
      if (!writes) continue;
      y[row * outputs + n] = FromFloat<T>(sums[n] + (bias == nullptr ? 0 : ToFloat(bias[n])));
    }
  }
}

// Computes dx. acc may be nullptr.
template <int kOutputs, typename T>
__global__ void __launch_bounds__(kThreads)
    DxKernel(const T* dy, const T* weight, const T* acc, int64_t rows, int64_t inputs, int outputs,
             T* dx) {
  constexpr int N = kPackSize<T>;
  const Lane<T> at(inputs);
  float weights[kOutputs][N];
  LoadWeights(weight, outputs, inputs, at.channel, weights);
  for (int64_t row = at.row; row < rows; row += at.step) {
    float gradients[kOutputs], result[N] = {};
    LoadRow(dy, row, outputs, gradients);
    const int64_t to = row * inputs + at.channel;
    if (acc != nullptr) LoadPack<N>(acc + to, result);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
      for (int i = 0; i < N; ++i) result[i] += gradients[n] * weights[n][i];
    }
    StorePack<N>(dx + to, result);
  }
}

// Computes partial sums of dweight: partials[blocks][outputs][inputs].
template <int kOutputs, typename T>
__global__ void __launch_bounds__(kThreads)
    DwKernel(const T* x, const T* dy, int64_t rows, int64_t inputs, int outputs, float* partials) {
  constexpr int N = kPackSize<T>;
  __shared__ float shared[kThreads];
  const Lane<T> at(inputs);
  float sums[kOutputs][N] = {};
  for (int64_t row = at.row; row < rows; row += at.step) {
    float gradients[kOutputs], values[N];
    LoadRow(dy, row, outputs, gradients);
    LoadPack<N>(x + row * inputs + at.channel, values);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[n][i] += gradients[n] * values[i];
    }
  }
  float* const to = partials + int64_t{blockIdx.x} * outputs * inputs;
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
    if (n >= outputs) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      // Sums over all threads that have the same channels.
      shared[threadIdx.x] = sums[n][i];
      for (int half = kThreads / 2; half >= at.across; half /= 2) {
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
      }
      if (static_cast<int>(threadIdx.x) < at.across) {
        to[n * inputs + at.channel + i] = shared[threadIdx.x];
      }
      __syncthreads();
    }
  }
}

// A warp sums one element over the blocks. acc may be nullptr.
__global__ void __launch_bounds__(kThreads)
    AddBlocksKernel(const float* partials, int64_t blocks, int64_t elements, const float* acc,
                    float* dweight) {
  const int64_t element = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (element >= elements) return;
  float sum = 0;
  for (int64_t block = threadIdx.x % kWarp; block < blocks; block += kWarp) {
    sum += partials[block * elements + element];
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) dweight[element] = acc == nullptr ? sum : acc[element] + sum;
}

// Calls launch.operator()<type, most outputs>().
template <typename Launch>
void WithOutputs(const CudaContext& ctx, const ConvGeometry& g, const Launch& launch) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    if (g.out_channels <= 4) {
      launch.template operator()<T, 4>();
    } else {
      launch.template operator()<T, kMostOutputs>();
    }
  });
  gpu::CheckLaunch(ctx.op.name.c_str());
}

// The number of blocks that run at once, or fewer if there are fewer rows. T: the type of x.
template <typename T>
unsigned BlocksFor(const ConvGeometry& g, int64_t most) {
  const int64_t threads = g.rows_in() * g.in_channels / kPackSize<T>;
  return static_cast<unsigned>(std::clamp<int64_t>((threads + kThreads - 1) / kThreads, 1, most));
}

}  // namespace

bool HasFewOutputs(const CudaContext& ctx, const ConvGeometry& g) {
  const int64_t pack = 16 / graph::ByteSize(ctx.dtype()), across = g.in_channels / pack;
  const bool divides =
      g.in_channels % pack == 0 && across >= 1 && across <= kWarp && (across & (across - 1)) == 0;
  return g.linear() && g.out_channels <= kMostOutputs && divides && g.in_channels <= kMostInputs &&
         g.rows_in() > 0 &&
         Aligned(ctx.in<void>(0), ctx.in<void>(1), ctx.in<void>(2), ctx.out<void>(0));
}

void ConvFewOutputs(const CudaContext& ctx, const ConvGeometry& g) {
  WithOutputs(ctx, g, [&]<typename T, int kOutputs>() {
    const unsigned blocks = BlocksFor<T>(g, 8 * int64_t{ctx.libraries.multiprocessors()});
    ForwardKernel<kOutputs><<<blocks, kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), ctx.in<T>(1), ctx.in<T>(2), g.rows_in(), g.in_channels,
        static_cast<int>(g.out_channels), ctx.out<T>(0));
  });
}

void ConvDxFewOutputs(const CudaContext& ctx, const ConvGeometry& g) {
  WithOutputs(ctx, g, [&]<typename T, int kOutputs>() {
    const unsigned blocks = BlocksFor<T>(g, 8 * int64_t{ctx.libraries.multiprocessors()});
    DxKernel<kOutputs><<<blocks, kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), ctx.in<T>(1), ctx.in<T>(2), g.rows_in(), g.in_channels,
        static_cast<int>(g.out_channels), ctx.out<T>(0));
  });
}

void ConvDwFewOutputs(const CudaContext& ctx, const ConvGeometry& g) {
  float* const partials = static_cast<float*>(ctx.workspace);
  const int outputs = static_cast<int>(g.out_channels);
  unsigned blocks = 0;
  WithOutputs(ctx, g, [&]<typename T, int kOutputs>() {
    blocks = BlocksFor<T>(g, kSumBlocks);
    DwKernel<kOutputs><<<blocks, kThreads, 0, ctx.stream>>>(ctx.in<T>(0), ctx.in<T>(1), g.rows_in(),
                                                            g.in_channels, outputs, partials);
  });
  const int64_t elements = g.out_channels * g.in_channels;
  AddBlocksKernel<<<static_cast<unsigned>((elements * kWarp + kThreads - 1) / kThreads), kThreads,
                    0, ctx.stream>>>(partials, blocks, elements, ctx.in<float>(2),
                                     ctx.out<float>(0));
  gpu::CheckLaunch("conv_dw");
}

}  // namespace plimsoll::ops
