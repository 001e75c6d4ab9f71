// Formulas in ops/norms/batch_norm_cpu.cc. Three kernels serve all four ops.
//
// Sums by column: a block takes a chunk of a group's rows and 16 packs of 16 bytes across; a thread
// takes every 16th row, and the block's threads are added in shared memory. The chunks are added by
// column_sums.h. The variance is summed around the mean, in a second pass over x.
// Coefficients: one thread for each group and channel turns sums into m, s and b.
// Rows: out = (in − m) · s + b (+ acc). A thread keeps the coefficients of its columns while it
// goes down the rows.
//
// Bytes of N elements: statistics 2·N·s, forward 2·N·s, backward 4·N·s, that of statistics 3·N·s.
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/batch_norm_partials.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfBlock = 64;  // that a block of the rows kernel takes

// Threads along a row, for packs and for single elements.
template <int N>
inline constexpr int kLanes = N > 1 ? 16 : 32;

// The terms that a pass sums: of each element, given the channel's mean.
template <typename T>
struct Values {  // Σ x
  static constexpr int kSums = 1;
  const T* x;
  template <int N>
  __device__ void Add(int64_t at, const float (&)[N], float (&sums)[1][N]) const {
    float values[N];
    LoadPack<N>(x + at, values);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[0][i] += values[i];
  }
};

template <typename T>
struct Squares {  // Σ (x − mean)²
  static constexpr int kSums = 1;
  const T* x;
  template <int N>
  __device__ void Add(int64_t at, const float (&mean)[N], float (&sums)[1][N]) const {
    float values[N];
    LoadPack<N>(x + at, values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = values[i] - mean[i];
      sums[0][i] += d * d;
    }
  }
};

template <typename T>
struct Gradients {  // Σ dy and Σ dy · (x − mean)
  static constexpr int kSums = 2;
  const T *dy, *x;
  template <int N>
  __device__ void Add(int64_t at, const float (&mean)[N], float (&sums)[2][N]) const {
    float gradients[N], values[N];
    LoadPack<N>(dy + at, gradients);
    LoadPack<N>(x + at, values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] += gradients[i];
      sums[1][i] += gradients[i] * (values[i] - mean[i]);
    }
  }
};

// Grid: (columns, chunks, groups). partials is [chunks][groups][sums][columns].
template <int N, typename Terms>
__global__ void __launch_bounds__(kThreads)
    SumsKernel(Terms terms, const float* mean, int64_t rows, int64_t columns, int64_t chunk,
               float* partials) {
  constexpr int kAcross = kLanes<N>, kDown = kThreads / kAcross, kSums = Terms::kSums;
  __shared__ float shared[kDown][kAcross * N];
  const int lane = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  const int64_t column = (int64_t{blockIdx.x} * kAcross + lane) * N;
  const int64_t group = blockIdx.z;
  float sums[kSums][N] = {};
  if (column < columns) {
    float means[N] = {};
    if (mean != nullptr) {
#pragma unroll
      for (int i = 0; i < N; ++i) means[i] = mean[group * columns + column + i];
    }
    const int64_t end = min((int64_t{blockIdx.y} + 1) * chunk, rows);
#pragma unroll 4
    for (int64_t row = int64_t{blockIdx.y} * chunk + down; row < end; row += kDown) {
      terms.template Add<N>((group * rows + row) * columns + column, means, sums);
    }
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) shared[down][lane * N + i] = sums[k][i];
    __syncthreads();
    for (int i = threadIdx.x; i < kAcross * N; i += kThreads) {
      const int64_t to = int64_t{blockIdx.x} * kAcross * N + i;
      if (to >= columns) continue;
      float sum = 0;
#pragma unroll
      for (int d = 0; d < kDown; ++d) sum += shared[d][i];
      partials[((blockIdx.y * int64_t{gridDim.z} + group) * kSums + k) * columns + to] = sum;
    }
  }
}

// Returns the totals, [groups][sums][columns], which lie behind the partial sums.
template <typename T, typename Terms>
const float* SumColumns(const CudaContext& ctx, const BatchNormSums& by, const Terms& terms,
                        bool aligned, const float* mean) {
  float* const partials = static_cast<float*>(ctx.workspace);
  float* const totals = partials + by.chunks * by.totals();
  const auto launch = [&]<int N>() {
    const int64_t across = kLanes<N> * N;
    const dim3 grid(static_cast<unsigned>((by.columns + across - 1) / across),
                    static_cast<unsigned>(by.chunks), static_cast<unsigned>(by.groups));
    SumsKernel<N>
        <<<grid, kThreads, 0, ctx.stream>>>(terms, mean, by.rows, by.columns, by.chunk, partials);
    gpu::CheckLaunch(ctx.op.name.c_str());
  };
  if (aligned && by.columns % kPackSize<T> == 0) {
    launch.template operator()<kPackSize<T>>();
  } else {
    launch.template operator()<1>();
  }
  AddPartialSums(ctx.stream, partials, by.chunks, by.totals(), nullptr, totals);
  return totals;
}

struct Coefficients {
  float *m, *s, *b;  // [groups][columns]
  Coefficients(void* memory, int64_t channels)
      : m(static_cast<float*>(memory)), s(m + channels), b(s + channels) {}
};

// out = (in − m) · s + b (+ acc). Grid: (rows, columns, groups); the first may be large.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    RowsKernel(const T* in, const T* acc, Coefficients by, int64_t rows, int64_t columns, T* out) {
  constexpr int kAcross = kLanes<N>, kDown = kThreads / kAcross;
  const int64_t column = (int64_t{blockIdx.y} * kAcross + threadIdx.x % kAcross) * N;
  if (column >= columns) return;
  const int64_t group = blockIdx.z, channel = group * columns + column;
  float m[N], s[N], b[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    m[i] = by.m[channel + i];
    s[i] = by.s[channel + i];
    b[i] = by.b[channel + i];
  }
  const int64_t first = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / kAcross;
  const int64_t end = min((int64_t{blockIdx.x} + 1) * kRowsOfBlock, rows);
#pragma unroll 4
  for (int64_t row = first; row < end; row += kDown) {
    const int64_t at = (group * rows + row) * columns + column;
    float values[N], added[N] = {};
    LoadPack<N>(in + at, values);
    if (acc != nullptr) LoadPack<N>(acc + at, added);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = (values[i] - m[i]) * s[i] + b[i] + added[i];
    StorePack<N>(out + at, values);
  }
}

template <typename T>
void MapRows(const CudaContext& ctx, const BatchNormSums& by, const Coefficients& coefficients,
             const T* in, const T* acc, T* out) {
  const auto launch = [&]<int N>() {
    const int64_t across = kLanes<N> * N;
    const dim3 grid(static_cast<unsigned>((by.rows + kRowsOfBlock - 1) / kRowsOfBlock),
                    static_cast<unsigned>((by.columns + across - 1) / across),
                    static_cast<unsigned>(by.groups));
    RowsKernel<N>
        <<<grid, kThreads, 0, ctx.stream>>>(in, acc, coefficients, by.rows, by.columns, out);
    gpu::CheckLaunch(ctx.op.name.c_str());
  };
  if (by.columns % kPackSize<T> == 0 && Aligned(in, acc, out)) {
    launch.template operator()<kPackSize<T>>();
  } else {
    launch.template operator()<1>();
  }
}

constexpr int kChannelThreads = 128;
unsigned ChannelBlocks(int64_t channels) {
  return static_cast<unsigned>((channels + kChannelThreads - 1) / kChannelThreads);
}

// One thread for each group and channel.
template <typename Function>
__global__ void __launch_bounds__(kChannelThreads)
    ChannelsKernel(int64_t channels, Function function) {
  const int64_t n = int64_t{blockIdx.x} * kChannelThreads + threadIdx.x;
  if (n < channels) function(n);
}

template <typename Function>
void ForChannels(const CudaContext& ctx, int64_t channels, const Function& function) {
  ChannelsKernel<<<ChannelBlocks(channels), kChannelThreads, 0, ctx.stream>>>(channels, function);
  gpu::CheckLaunch(ctx.op.name.c_str());
}

struct Divide {
  const float* sums;
  float n;
  float* to;
  __device__ void operator()(int64_t i) const { to[i] = sums[i] / n; }
};

void Statistics(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.out_shape(0).dim(0), 1);
  float *const mean = ctx.out<float>(0), *const variance = ctx.out<float>(1);
  const auto n = static_cast<float>(by.rows);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T* const x = ctx.in<T>(0);
    const float* sums = SumColumns<T>(ctx, by, Values<T>{x}, Aligned(x), nullptr);
    ForChannels(ctx, by.totals(), Divide{sums, n, mean});
    sums = SumColumns<T>(ctx, by, Squares<T>{x}, Aligned(x), mean);
    ForChannels(ctx, by.totals(), Divide{sums, n, variance});
    if (ctx.has_output(2)) ForChannels(ctx, by.totals(), Divide{sums, n - 1, ctx.out<float>(2)});
  });
}

// Of a channel; a few ranks' statistics.
template <typename T>
struct MergeTerms {
  const T *means, *variances;
  int64_t sets, columns;
  float all;                      // number of values
  T *mean, *variance, *unbiased;  // the last perhaps nullptr
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

// Of a channel of a rank.
template <typename T>
struct MergeGradientTerms {
  const T *means, *mean, *dmean, *dvariance;  // the last two perhaps nullptr
  int64_t sets, columns;
  T *dmeans, *dvariances;  // perhaps nullptr
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

// (dmean + 2 · dvariance · (x − mean)) / n
struct StatisticsTerms {
  const float *mean, *dmean, *dvariance;
  float n;
  Coefficients to;
  __device__ void operator()(int64_t i) const {
    to.m[i] = mean[i];
    to.s[i] = dvariance == nullptr ? 0 : 2 * dvariance[i] / n;
    to.b[i] = dmean == nullptr ? 0 : dmean[i] / n;
  }
};

void StatisticsBackward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(1).dim(0), 1);
  const Coefficients coefficients(ctx.workspace, by.groups * by.columns);
  ForChannels(ctx, by.groups * by.columns,
              StatisticsTerms{ctx.in<float>(1), ctx.in<float>(2), ctx.in<float>(3),
                              static_cast<float>(by.rows), coefficients});
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    MapRows(ctx, by, coefficients, ctx.in<T>(0), ctx.in<T>(4), ctx.out<T>(0));
  });
}

__device__ float InverseDeviation(float variance, float eps) { return 1 / sqrtf(variance + eps); }

template <typename T>
struct ForwardTerms {
  const float *mean, *variance;
  const T *weight, *bias;
  float eps;
  int64_t columns;
  Coefficients to;
  __device__ void operator()(int64_t i) const {
    to.m[i] = mean[i];
    to.s[i] = InverseDeviation(variance[i], eps) * ToFloat(weight[i % columns]);
    to.b[i] = ToFloat(bias[i % columns]);
  }
};

void Forward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(1).dim(0), 1);
  const Coefficients coefficients(ctx.workspace, by.groups * by.columns);
  const auto eps = static_cast<float>(ctx.attributes.GetReal("eps"));
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    ForChannels(ctx, by.groups * by.columns,
                ForwardTerms<T>{ctx.in<float>(1), ctx.in<float>(2), ctx.in<T>(3), ctx.in<T>(4), eps,
                                by.columns, coefficients});
    MapRows(ctx, by, coefficients, ctx.in<T>(0), static_cast<const T*>(nullptr), ctx.out<T>(0));
  });
}

template <typename T>
struct GradientTerms {
  const float* variance;
  const T* weight;
  float eps;
  int64_t columns;
  const float* sums;         // [groups][2][columns]; nullptr: none is wanted
  float *dmean, *dvariance;  // perhaps nullptr
  Coefficients to;
  __device__ void operator()(int64_t i) const {
    const int64_t group = i / columns, column = i % columns;
    const float rstd = InverseDeviation(variance[i], eps);
    const float scale = rstd * ToFloat(weight[column]);
    to.m[i] = 0;
    to.s[i] = scale;
    to.b[i] = 0;
    if (sums == nullptr) return;
    const float* const sum = sums + group * 2 * columns + column;
    if (dmean != nullptr) dmean[i] = -scale * sum[0];
    if (dvariance != nullptr) dvariance[i] = -rstd * rstd * scale * sum[columns] / 2;
  }
};

// dweight and dbias of a channel, over the groups in their order.
struct WeightTerms {
  const float *variance, *sums;
  float eps;
  int64_t groups, columns;
  const float *acc_weight, *acc_bias;
  float *dweight, *dbias;
  __device__ void operator()(int64_t column) const {
    float weight = acc_weight == nullptr ? 0 : acc_weight[column];
    float bias = acc_bias == nullptr ? 0 : acc_bias[column];
    for (int64_t group = 0; group < groups; ++group) {
      const float* const sum = sums + group * 2 * columns + column;
      weight += InverseDeviation(variance[group * columns + column], eps) * sum[columns];
      bias += sum[0];
    }
    if (dweight != nullptr) dweight[column] = weight;
    if (dbias != nullptr) dbias[column] = bias;
  }
};

void Backward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(2).dim(0), 2);
  const int64_t channels = by.groups * by.columns;
  const Coefficients coefficients(static_cast<char*>(ctx.workspace) + by.bytes(), channels);
  const auto eps = static_cast<float>(ctx.attributes.GetReal("eps"));
  const bool of_weight = ctx.has_output(3) || ctx.has_output(4);
  const bool sums_wanted = ctx.has_output(1) || ctx.has_output(2) || of_weight;
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T *const dy = ctx.in<T>(0), *const x = ctx.in<T>(1);
    const float* sums = nullptr;
    if (sums_wanted) {
      sums = SumColumns<T>(ctx, by, Gradients<T>{dy, x}, Aligned(dy, x), ctx.in<float>(2));
    }
    ForChannels(ctx, channels,
                GradientTerms<T>{ctx.in<float>(3), ctx.in<T>(4), eps, by.columns, sums,
                                 ctx.out<float>(1), ctx.out<float>(2), coefficients});
    if (of_weight) {
      ForChannels(ctx, by.columns,
                  WeightTerms{ctx.in<float>(3), sums, eps, by.groups, by.columns, ctx.in<float>(6),
                              ctx.in<float>(7), ctx.out<float>(3), ctx.out<float>(4)});
    }
    if (ctx.has_output(0)) MapRows(ctx, by, coefficients, dy, ctx.in<T>(5), ctx.out<T>(0));
  });
}

const CudaKernelRegistration kStatistics({"batch_norm_statistics", &Statistics});
const CudaKernelRegistration kStatisticsBackward({"batch_norm_statistics_backward",
                                                  &StatisticsBackward});
const CudaKernelRegistration kMerge({"merge_batch_norm_statistics", &Merge});
const CudaKernelRegistration kMergeBackward({"merge_batch_norm_statistics_backward",
                                             &MergeBackward});
const CudaKernelRegistration kForward({"batch_norm", &Forward});
const CudaKernelRegistration kBackward({"batch_norm_backward", &Backward});

}  // namespace
}  // namespace plimsoll::ops
