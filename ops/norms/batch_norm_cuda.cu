// Formulas in ops/norms/batch_norm_cpu.cc. Kernels over x take a chunk or a few rows of a group,
// and 16 packs of 16 bytes across; a thread keeps what it knows of its columns while it goes down
// the rows.
//
// Sums by column: a block's threads are added in shared memory, the chunks by column_sums.h.
// Rows: a result for each element, from up to three tensors.
//
// Bytes of N elements: forward 2·N·s, backward 4·N·s, that of statistics 3·N·s,
// both at once 5·N·s.
#include <type_traits>

#include "ops/cuda/batch_norm_columns.cuh"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/batch_norm_attributes.h"
#include "ops/norms/batch_norm_partials.h"

namespace plimsoll::ops {
namespace {

constexpr int kRowsOfBlock = 128;  // that a block of the rows kernel takes

__device__ float InverseDeviation(float variance, float eps) { return 1 / sqrtf(variance + eps); }

// What x is normalized to. Intrinsics, so that all kernels have the same bits.
struct Scaling {
  float m, s, b;
  __device__ float Of(float x) const { return __fmaf_rn(x - m, s, b); }
};

// Values as they are after they were stored, two at a time.
template <typename T, int N>
__device__ void Round(float (&values)[N]) {
  if constexpr (std::is_same_v<T, __half> && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const float2 two = __half22float2(__floats2half2_rn(values[i], values[i + 1]));
      values[i] = two.x, values[i + 1] = two.y;
    }
  } else if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const float2 two = __bfloat1622float2(__floats2bfloat162_rn(values[i], values[i + 1]));
      values[i] = two.x, values[i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = ToFloat(FromFloat<T>(values[i]));
  }
}

// The largest number that becomes 0 when it is stored: half of the least above 0.
template <typename T>
__device__ constexpr float LargestZero() {
  if constexpr (std::is_same_v<T, __half>) return 0x1p-25f;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return 0x1p-134f;
  return 0.0f;
}

// What is known of the block's channels, each found by one thread, to all of its threads.
template <int N, typename Terms>
__device__ void ShareChannels(const Terms& terms, int64_t group, int64_t first, int64_t columns,
                              typename Terms::Channel (&mine)[N]) {
  constexpr int kColumns = kNormLanes<N> * N;
  __shared__ typename Terms::Channel shared[kColumns];
  for (int i = threadIdx.x; i < kColumns; i += kNormThreads) {
    if (first + i < columns) shared[i] = terms.At(group, first + i, columns);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) mine[i] = shared[threadIdx.x % kNormLanes<N> * N + i];
}

// Grid: (rows, columns, groups); the first may be large. Terms::At gives what it knows of a
// channel, Terms::Make the results of a pack.
template <int N, typename T, typename Terms>
__global__ void __launch_bounds__(kNormThreads)
    RowsKernel(const __grid_constant__ Terms terms, int64_t rows, int64_t columns, T* out) {
  constexpr int kAcross = kNormLanes<N>, kDown = kNormThreads / kAcross;
  const int64_t first = int64_t{blockIdx.y} * kAcross * N, group = blockIdx.z;
  const int64_t column = first + threadIdx.x % kAcross * N;
  typename Terms::Channel channels[N];
  ShareChannels<N>(terms, group, first, columns, channels);
  if (column >= columns) return;
  const int64_t begin = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / kAcross;
  const int64_t end = min((int64_t{blockIdx.x} + 1) * kRowsOfBlock, rows);
  for (int64_t row = begin; row < end; row += kNormRowsAtOnce * kDown) {
    float results[kNormRowsAtOnce][N];
#pragma unroll
    for (int k = 0; k < kNormRowsAtOnce; ++k) {
      const int64_t r = row + k * kDown;
      if (r < end)
        terms.template Make<N>((group * rows + r) * columns + column, channels, results[k]);
    }
#pragma unroll
    for (int k = 0; k < kNormRowsAtOnce; ++k) {
      const int64_t r = row + k * kDown;
      if (r < end) StorePack<N>(out + (group * rows + r) * columns + column, results[k]);
    }
  }
}

template <typename T, typename Terms>
void MapRows(const CudaContext& ctx, const BatchNormSums& by, const Terms& terms, bool aligned,
             T* out) {
  WithPacks<T>(by.columns, aligned && Aligned(out), [&]<int N>() {
    const dim3 grid(static_cast<unsigned>((by.rows + kRowsOfBlock - 1) / kRowsOfBlock),
                    Across<N>(by.columns), static_cast<unsigned>(by.groups));
    RowsKernel<N><<<grid, kNormThreads, 0, ctx.stream>>>(terms, by.rows, by.columns, out);
    gpu::CheckLaunch(ctx.op.name.c_str());
  });
}

// (x − mean) · rstd · weight + bias, perhaps the larger of that and 0.
template <typename T>
struct ForwardTerms {
  using Channel = Scaling;
  const T* x;
  const float *mean, *variance, *weight, *bias;
  float eps;
  bool relu;

  __device__ Scaling At(int64_t group, int64_t column, int64_t columns) const {
    const int64_t i = group * columns + column;
    return {mean[i], InverseDeviation(variance[i], eps) * weight[column], bias[column]};
  }
  template <int N>
  __device__ void Make(int64_t at, const Scaling (&channels)[N], float (&y)[N]) const {
    LoadPack<N>(x + at, y);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      y[i] = channels[i].Of(y[i]);
      if (relu) y[i] = y[i] <= 0 ? 0.0f : y[i];
    }
  }
};

void Forward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(1).dim(0), 1);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const ForwardTerms<T> terms{ctx.in<T>(0),
                                ctx.in<float>(1),
                                ctx.in<float>(2),
                                ctx.in<float>(3),
                                ctx.in<float>(4),
                                static_cast<float>(ctx.attributes.GetReal("eps")),
                                AppliesRelu(ctx.attributes)};
    MapRows(ctx, by, terms, Aligned(terms.x), ctx.out<T>(0));
  });
}

// (dmean + 2 · dvariance · (x − mean)) / n (+ acc)
template <typename T>
struct StatisticsTerms {
  using Channel = Scaling;
  const T *x, *acc;
  const float *mean, *dmean, *dvariance;
  float n;

  __device__ Scaling At(int64_t group, int64_t column, int64_t columns) const {
    const int64_t i = group * columns + column;
    return {mean[i], dvariance == nullptr ? 0 : 2 * dvariance[i] / n,
            dmean == nullptr ? 0 : dmean[i] / n};
  }
  template <int N>
  __device__ void Make(int64_t at, const Scaling (&channels)[N], float (&dx)[N]) const {
    float added[N] = {};
    LoadPack<N>(x + at, dx);
    if (acc != nullptr) LoadPack<N>(acc + at, added);
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] = channels[i].Of(dx[i]) + added[i];
  }
};

void StatisticsBackward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(1).dim(0), 1);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const StatisticsTerms<T> terms{ctx.in<T>(0),     ctx.in<T>(4),     ctx.in<float>(1),
                                   ctx.in<float>(2), ctx.in<float>(3), static_cast<float>(by.rows)};
    MapRows(ctx, by, terms, Aligned(terms.x, terms.acc), ctx.out<T>(0));
  });
}

// The arguments of the backward op, and what its kernels compute of a channel.
template <typename T>
struct BackwardTerms {
  const T *dy, *x, *acc;
  const float *mean, *variance, *weight, *bias;  // bias: only with relu
  float eps, n;
  bool relu, through;
  const float* sums;  // [groups][2][columns], Σdy and Σ(dy·d)

  // Results of a channel.
  struct Gradients {
    float rstd, scale, dmean, dvariance;
  };
  __device__ Gradients Of(int64_t group, int64_t column, int64_t columns) const {
    Gradients g{};
    g.rstd = InverseDeviation(variance[group * columns + column], eps);
    g.scale = g.rstd * weight[column];
    if (sums == nullptr) return g;
    const float* const sum = sums + group * 2 * columns + column;
    g.dmean = -g.scale * sum[0];
    g.dvariance = -g.rstd * g.rstd * g.scale * sum[columns] / 2;
    return g;
  }

  struct Channel {
    Scaling forward, through;
  };
  __device__ Channel At(int64_t group, int64_t column, int64_t columns) const {
    const Gradients g = Of(group, column, columns);
    const float m = mean[group * columns + column];
    return {{m, g.scale, bias == nullptr ? 0 : bias[column]},
            {m, 2 * g.dvariance / n, g.dmean / n}};
  }
  // Whether the gradient passes the ReLU of a value.
  __device__ bool Passes(const Channel& channel, float value) const {
    return !relu || !(channel.forward.Of(value) <= LargestZero<T>());
  }
  template <int N>
  __device__ void Make(int64_t at, const Channel (&channels)[N], float (&dx)[N]) const {
    float values[N] = {}, added[N] = {};
    LoadPack<N>(dy + at, dx);
    if (relu || through) LoadPack<N>(x + at, values);
    if (acc != nullptr) LoadPack<N>(acc + at, added);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float gradient = Passes(channels[i], values[i]) ? dx[i] : 0.0f;
      dx[i] = __fadd_rn(__fmul_rn(gradient, channels[i].forward.s), added[i]);
    }
    if (!through) return;
    Round<T>(dx);
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] += channels[i].through.Of(values[i]);
  }
};

// Grid: (columns, chunks, groups). partials is [chunks][groups][2][columns].
template <int N, typename T>
__global__ void __launch_bounds__(kNormThreads)
    SumsKernel(const __grid_constant__ BackwardTerms<T> terms, int64_t rows, int64_t columns,
               int64_t chunk, float* partials) {
  constexpr int kAcross = kNormLanes<N>, kDown = kNormThreads / kAcross;
  __shared__ float shared[kDown][kAcross * N];
  const int lane = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  const int64_t column = (int64_t{blockIdx.x} * kAcross + lane) * N;
  const int64_t group = blockIdx.z;
  float sums[2][N] = {};
  typename BackwardTerms<T>::Channel channels[N];
  ShareChannels<N>(terms, group, column - lane * N, columns, channels);
  if (column < columns) {
    constexpr int kAtOnce = kNormRowsAtOnce / 2;  // of both tensors
    const auto add = [&](const float(&gradients)[N], const float(&values)[N]) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float gradient = terms.Passes(channels[i], values[i]) ? gradients[i] : 0.0f;
        sums[0][i] += gradient;
        sums[1][i] += gradient * (values[i] - channels[i].forward.m);
      }
    };
    const int64_t end = min((int64_t{blockIdx.y} + 1) * chunk, rows);
    int64_t row = int64_t{blockIdx.y} * chunk + down;
    for (; row + (kAtOnce - 1) * kDown < end; row += kAtOnce * kDown) {
      float gradients[kAtOnce][N], values[kAtOnce][N];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t at = (group * rows + row + k * kDown) * columns + column;
        LoadPack<N>(terms.dy + at, gradients[k]);
        LoadPack<N>(terms.x + at, values[k]);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) add(gradients[k], values[k]);
    }
    for (; row < end; row += kDown) {
      float gradients[N], values[N];
      const int64_t at = (group * rows + row) * columns + column;
      LoadPack<N>(terms.dy + at, gradients);
      LoadPack<N>(terms.x + at, values);
      add(gradients, values);
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) shared[down][lane * N + i] = sums[k][i];
    __syncthreads();
    for (int i = threadIdx.x; i < kAcross * N; i += kNormThreads) {
      const int64_t to = int64_t{blockIdx.x} * kAcross * N + i;
      if (to >= columns) continue;
      float sum = 0;
#pragma unroll
      for (int d = 0; d < kDown; ++d) sum += shared[d][i];
      partials[((blockIdx.y * int64_t{gridDim.z} + group) * 2 + k) * columns + to] = sum;
    }
  }
}

// Returns the totals, [groups][2][columns], which lie behind the partial sums.
template <typename T>
const float* SumColumns(const CudaContext& ctx, const BatchNormSums& by,
                        const BackwardTerms<T>& terms) {
  float* const partials = static_cast<float*>(ctx.workspace);
  float* const totals = partials + by.chunks * by.totals();
  WithPacks<T>(by.columns, Aligned(terms.dy, terms.x), [&]<int N>() {
    const dim3 grid(Across<N>(by.columns), static_cast<unsigned>(by.chunks),
                    static_cast<unsigned>(by.groups));
    SumsKernel<N>
        <<<grid, kNormThreads, 0, ctx.stream>>>(terms, by.rows, by.columns, by.chunk, partials);
    gpu::CheckLaunch("batch_norm_backward: sums");
  });
  AddPartialSums(ctx.stream, partials, by.chunks, by.totals(), nullptr, totals);
  return totals;
}

// Of a channel, over the groups in their order.
template <typename T>
struct ChannelResults {
  BackwardTerms<T> terms;
  int64_t groups, columns;
  const float *acc_weight, *acc_bias;
  float *dmean, *dvariance, *dweight, *dbias;  // perhaps nullptr

  __device__ void operator()(int64_t column) const {
    float weight = acc_weight == nullptr ? 0 : acc_weight[column];
    float bias = acc_bias == nullptr ? 0 : acc_bias[column];
    for (int64_t group = 0; group < groups; ++group) {
      const auto g = terms.Of(group, column, columns);
      const float* const sum = terms.sums + group * 2 * columns + column;
      if (dmean != nullptr) dmean[group * columns + column] = g.dmean;
      if (dvariance != nullptr) dvariance[group * columns + column] = g.dvariance;
      weight += g.rstd * sum[columns];
      bias += sum[0];
    }
    if (dweight != nullptr) dweight[column] = weight;
    if (dbias != nullptr) dbias[column] = bias;
  }
};

void Backward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(2).dim(0), 2);
  bool of_channels = false;
  for (size_t i = 1; i < 5; ++i) of_channels = of_channels || ctx.has_output(i);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    BackwardTerms<T> terms{ctx.in<T>(0),
                           ctx.in<T>(1),
                           ctx.in<T>(5),
                           ctx.in<float>(2),
                           ctx.in<float>(3),
                           ctx.in<float>(4),
                           ctx.in<float>(8),
                           static_cast<float>(ctx.attributes.GetReal("eps")),
                           static_cast<float>(by.rows),
                           AppliesRelu(ctx.attributes),
                           GoesThroughStatistics(ctx.attributes),
                           nullptr};
    if (of_channels || terms.through) terms.sums = SumColumns(ctx, by, terms);
    if (of_channels) {
      ForChannels(ctx, by.columns,
                  ChannelResults<T>{terms, by.groups, by.columns, ctx.in<float>(6),
                                    ctx.in<float>(7), ctx.out<float>(1), ctx.out<float>(2),
                                    ctx.out<float>(3), ctx.out<float>(4)});
    }
    if (ctx.has_output(0)) {
      MapRows(ctx, by, terms, Aligned(terms.dy, terms.x, terms.acc), ctx.out<T>(0));
    }
  });
}

const CudaKernelRegistration kStatisticsBackward({"batch_norm_statistics_backward",
                                                  &StatisticsBackward});
const CudaKernelRegistration kForward({"batch_norm", &Forward});
const CudaKernelRegistration kBackward({"batch_norm_backward", &Backward});

}  // namespace
}  // namespace plimsoll::ops
