// Formulas in ops/norms/batch_norm_cpu.cc. ops/cuda/batch_norm_rows.cuh has the kernel for results
// of each element. Sums by column: a block takes steps of rows of a group, from the last to the
// first. Its threads' sums are added in shared memory. A second kernel adds the blocks' sums, 32 at
// once, and computes the gradients of channels. The kernels of a gradient follow each other as
// stages.
//
// Bytes for N elements: forward 2·N·s, with a residual 3·N·s + N/8; backward 4·N·s, that of
// statistics 3·N·s, both at once 5·N·s, with the residual 6·N·s + N/8.
#include "ops/cuda/batch_norm_rows.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/batch_norm_attributes.h"

namespace plimsoll::ops {
namespace {

__device__ float InverseDeviation(float variance, float eps) { return 1 / sqrtf(variance + eps); }

// The normalized value of x. Intrinsics, so that all kernels have the same bits.
__device__ float Normalised(float x, float mean, float scale, float bias) {
  return __fmaf_rn(x - mean, scale, bias);
}

// Rounds values as storing them would.
template <typename T, int N>
__device__ void Round(float (&values)[N]) {
  ToFloats(RoundPack<T, N>(values), values);
}

// `passed` where a value is positive, slope · passed elsewhere. A slope of 0 is no product, which
// would give −0, and NaN for infinities.
__device__ float Rectified(bool positive, float passed, float slope) {
  return positive ? passed : slope == 0 ? 0.0f : passed * slope;
}

// (x − mean) · rstd · weight + bias, plus the residual, optionally followed by a ReLU. Rounds after
// each step, as separate ops would.
template <typename T>
struct ForwardTerms {
  static constexpr int kTensors = 2, kTerms = 3;
  const T* tensors[kTensors];  // x, the residual
  const float *mean, *variance, *weight, *bias;
  float eps;
  bool relu;
  float slope;  // only with relu

  __device__ void At(int64_t group, int64_t column, int64_t columns, float (&terms)[kTerms]) const {
    const int64_t i = group * columns + column;
    terms[0] = mean[i];
    terms[1] = InverseDeviation(variance[i], eps) * weight[column];
    terms[2] = bias[column];
  }
  template <int kWide>
  __device__ void Make(const float (&terms)[kTerms][kWide], const float (&values)[kTensors][kWide],
                       float (&y)[kWide]) const {
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      y[w] = Normalised(values[0][w], terms[0][w], terms[1][w], terms[2][w]);
    }
    if (tensors[1] != nullptr) {
      Round<T>(y);
#pragma unroll
      for (int w = 0; w < kWide; ++w) y[w] += values[1][w];
    }
    if (!relu) return;
#pragma unroll
    for (int w = 0; w < kWide; ++w) y[w] = Rectified(!(y[w] <= 0), y[w], slope);
  }
};

template <typename T>
struct ForwardWithBits : ForwardTerms<T> {
  uint8_t* positive;
};

void Forward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(1).dim(0), 1);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const ForwardTerms<T> terms{{ctx.in<T>(0), ctx.in<T>(5)},
                                ctx.in<float>(1),
                                ctx.in<float>(2),
                                ctx.in<float>(3),
                                ctx.in<float>(4),
                                static_cast<float>(ctx.attributes.GetReal("eps")),
                                AppliesRelu(ctx.attributes),
                                static_cast<float>(ReluSlope(ctx.attributes))};
    if (ctx.has_output(1)) {
      MapRows(ctx, by, ForwardWithBits<T>{terms, ctx.out<uint8_t>(1)}, ctx.out<T>(0));
    } else {
      MapRows(ctx, by, terms, ctx.out<T>(0));
    }
  });
}

// (dmean + 2 · dvariance · (x − mean)) / n (+ acc)
template <typename T>
struct StatisticsTerms {
  static constexpr int kTensors = 2, kTerms = 3;
  const T* tensors[kTensors];  // x, acc
  const float *mean, *dmean, *dvariance;
  float n;

  __device__ void At(int64_t group, int64_t column, int64_t columns, float (&terms)[kTerms]) const {
    const int64_t i = group * columns + column;
    terms[0] = mean[i];
    terms[1] = dvariance == nullptr ? 0 : 2 * dvariance[i] / n;
    terms[2] = dmean == nullptr ? 0 : dmean[i] / n;
  }
  template <int kWide>
  __device__ void Make(const float (&terms)[kTerms][kWide], const float (&values)[kTensors][kWide],
                       float (&dx)[kWide]) const {
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      dx[w] = Normalised(values[0][w], terms[0][w], terms[1][w], terms[2][w]) + values[1][w];
    }
  }
};

void StatisticsBackward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(1).dim(0), 1);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    MapRows(ctx, by,
            StatisticsTerms<T>{{ctx.in<T>(0), ctx.in<T>(4)},
                               ctx.in<float>(1),
                               ctx.in<float>(2),
                               ctx.in<float>(3),
                               static_cast<float>(by.rows)},
            ctx.out<T>(0));
  });
}

// The values of a channel that the kernels of the backward op read.
struct BackwardChannels {
  const float *mean, *variance, *weight, *bias;  // bias: only with relu
  float eps, n;
  bool relu, through;
  float slope;          // with relu
  const float* totals;  // [groups][2][columns], Σdy and Σ(dy·d); nullptr if not needed

  struct Gradients {
    float rstd, scale, dmean, dvariance;
  };
  __device__ Gradients Of(int64_t group, int64_t column, int64_t columns, float sum_dy,
                          float sum_dyd) const {
    Gradients g;
    g.rstd = InverseDeviation(variance[group * columns + column], eps);
    g.scale = g.rstd * weight[column];
    g.dmean = -g.scale * sum_dy;
    g.dvariance = -g.rstd * g.rstd * g.scale * sum_dyd / 2;
    return g;
  }
  // Computes mean, scale and bias; with kTerms = 5 also the factor and the constant of the gradient
  // through the statistics.
  template <int kTerms>
  __device__ void At(int64_t group, int64_t column, int64_t columns, float (&terms)[kTerms]) const {
    const float* const sum = totals + group * 2 * columns + column;
    const bool summed = kTerms > 3 && totals != nullptr;
    const Gradients g = Of(group, column, columns, summed ? sum[0] : 0, summed ? sum[columns] : 0);
    terms[0] = mean[group * columns + column];
    terms[1] = g.scale;
    terms[2] = bias == nullptr ? 0 : bias[column];
    if constexpr (kTerms > 3) {
      terms[3] = 2 * g.dvariance / n;
      terms[4] = g.dmean / n;
    }
  }
  // The gradient that the ReLU of a value lets pass.
  template <typename T>
  __device__ float Passed(float gradient, float value, float mean_of, float scale,
                          float bias_of) const {
    if (!relu) return gradient;
    return Rectified(IsPositive<T>(Normalised(value, mean_of, scale, bias_of)), gradient, slope);
  }
};

template <typename T>
struct BackwardTerms {
  static constexpr int kTensors = 3, kTerms = 5;
  const T* tensors[kTensors];  // dy, x, acc
  BackwardChannels channels;

  __device__ void At(int64_t group, int64_t column, int64_t columns, float (&terms)[kTerms]) const {
    channels.At(group, column, columns, terms);
  }
  template <int kWide>
  __device__ void Make(const float (&terms)[kTerms][kWide], const float (&values)[kTensors][kWide],
                       float (&dx)[kWide]) const {
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      const float passed =
          channels.Passed<T>(values[0][w], values[1][w], terms[0][w], terms[1][w], terms[2][w]);
      dx[w] = __fadd_rn(__fmul_rn(passed, terms[1][w]), values[2][w]);
    }
    if (!channels.through) return;
    Round<T>(dx);
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      dx[w] += Normalised(values[1][w], terms[0][w], terms[3][w], terms[4][w]);
    }
  }
};

// The values that are summed: dy and x. With bits that say where y is positive, dy counts as 0
// elsewhere, and is stored so as `masked`.
template <typename T>
struct Summed {
  const T *dy, *x;
  const uint8_t* positive;  // may be nullptr
  T* masked;
};

// Keeps the elements of dy whose bits are set, and sets the others to 0.
template <int kWide, typename T, int N>
__device__ void Mask(Pack<T, N>& dy, uint32_t positive) {
#pragma unroll
  for (int i = 0; i < N; i += kWide) {
    float gradient[kWide];
    PartOf(dy, i, gradient);
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      gradient[w] = (positive >> (i + w) & 1) != 0 ? gradient[w] : 0.0f;
    }
    RoundInto(dy, i, gradient);
  }
}

// Grid: (columns, chunks, groups). partials is [chunks][groups][2][columns].
template <int N, int kAcross, typename T>
__global__ void __launch_bounds__(kNormThreads, 2)
    SumsKernel(const __grid_constant__ Summed<T> summed,
               const __grid_constant__ BackwardChannels of, int64_t rows, int64_t columns,
               float* partials) {
  using Steps = RowSteps<kAcross, kRowsAtOnce>;
  constexpr int kDown = Steps::kDown, kWide = kNormWide<N>;
  __shared__ BlockChannels<N, kAcross, 3> channels;
  __shared__ float shared[kDown][N][kAcross];
  LetDependentsLaunch();
  const int64_t first = int64_t{blockIdx.x} * kAcross * N, group = blockIdx.z;
  channels.Set(first, columns,
               [&](int64_t column, float(&found)[3]) { of.At(group, column, columns, found); });
  const int lane = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  const int64_t column = first + lane * N;
  float sums[2][N] = {};
  const auto add = [&]<int kRows>(const Pack<T, N>(&gradients)[kRows],
                                  const Pack<T, N>(&inputs)[kRows]) {
#pragma unroll
    for (int i = 0; i < N; i += kWide) {
      float known[3][kWide];
      channels.Get(i, known);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        float gradient[kWide], value[kWide];
        PartOf(gradients[k], i, gradient);
        PartOf(inputs[k], i, value);
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          const float passed =
              of.Passed<T>(gradient[w], value[w], known[0][w], known[1][w], known[2][w]);
          sums[0][i + w] += passed;
          sums[1][i + w] += passed * (value[w] - known[0][w]);
        }
      }
    }
  };
  if (column < columns) {
    const int64_t origin = group * rows * columns + column, row_bytes = PositiveBytes(columns);
    const uint8_t* const bits = summed.positive + group * rows * row_bytes;
    // Adds the rows `row`, `row` + kDown, …
    const auto add_rows = [&]<int kRows>(int64_t row) {
      Pack<T, N> gradients[kRows], inputs[kRows];
      uint32_t positive[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const int64_t at = origin + (row + k * kDown) * columns;
        gradients[k] = ReadPack<N>(summed.dy + at);
        inputs[k] = ReadPack<N>(summed.x + at);
        if (summed.positive != nullptr) {
          positive[k] = LoadPositive<N>(bits + (row + k * kDown) * row_bytes, column);
        }
      }
      if (summed.positive != nullptr) {
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          Mask<kWide>(gradients[k], positive[k]);
          WriteGlobal(summed.masked + origin + (row + k * kDown) * columns, gradients[k]);
        }
      }
      add(gradients, inputs);
    };
    Steps::ForEach(rows, blockIdx.y, gridDim.y, /*from_end=*/true, [&](int64_t row) {
      if (row + (kRowsAtOnce - 1) * kDown < rows) {
        add_rows.template operator()<kRowsAtOnce>(row);
        return;
      }
      for (; row < rows; row += kDown) add_rows.template operator()<1>(row);
    });
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) shared[down][i][lane] = sums[k][i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kAcross * N; i += kNormThreads) {
      if (first + i >= columns) continue;
      float sum = 0;
#pragma unroll
      for (int d = 0; d < kDown; ++d) sum += shared[d][i % N][i / N];
      partials[((blockIdx.y * int64_t{gridDim.z} + group) * 2 + k) * columns + first + i] = sum;
    }
  }
}

// The backward op's results for channels; each may be nullptr.
struct ChannelResults {
  const float *acc_weight, *acc_bias;
  float *dmean, *dvariance;  // gradients of the mean and variance of each group
  float *dweight, *dbias;    // over all groups

  __device__ void Store(const BackwardChannels::Gradients& g, int64_t channel) const {
    if (dmean != nullptr) dmean[channel] = g.dmean;
    if (dvariance != nullptr) dvariance[channel] = g.dvariance;
  }
  // Stores Σ_groups rstd · Σ(dy·d) and Σ_groups Σdy, plus acc.
  __device__ void StoreParameters(int64_t column, float of_weight, float of_bias) const {
    if (dweight != nullptr) {
      dweight[column] = acc_weight == nullptr ? of_weight : acc_weight[column] + of_weight;
    }
    if (dbias != nullptr) {
      dbias[column] = acc_bias == nullptr ? of_bias : acc_bias[column] + of_bias;
    }
  }
};

// A block has 32 channels of all groups; its 32 warps add every 32nd chunk. `totals` is as in
// BackwardChannels. With one group, the gradients of weight and bias are computed here.
__global__ void __launch_bounds__(kWarp* kWarp)
    AddChunksKernel(const float* partials, int64_t chunks, int64_t groups, int64_t columns,
                    const __grid_constant__ BackwardChannels of,
                    const __grid_constant__ ChannelResults results, float* totals) {
  __shared__ float shared[2][kWarp][kWarp + 1];
  LetDependentsLaunch();
  AwaitFirstStage();
  const int64_t first = int64_t{blockIdx.x} * kWarp, all = groups * columns;
  float sums[2] = {};
  if (first + threadIdx.x < all) {
    const int64_t channel = first + threadIdx.x, group = channel / columns;
    const float* const from = partials + group * columns + channel;  // 2·group·columns + column
#pragma unroll 4
    for (int64_t c = threadIdx.y; c < chunks; c += kWarp) {
      sums[0] += from[c * 2 * all];
      sums[1] += from[c * 2 * all + columns];
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) shared[k][threadIdx.y][threadIdx.x] = sums[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 2; ++k) sums[k] = WarpSum(shared[k][threadIdx.x][threadIdx.y]);
  const int64_t channel = first + threadIdx.y;
  if (threadIdx.x != 0 || channel >= all) return;
  const int64_t group = channel / columns, column = channel - group * columns;
  totals[group * columns + channel] = sums[0];
  totals[group * columns + channel + columns] = sums[1];
  const auto g = of.Of(group, column, columns, sums[0], sums[1]);
  results.Store(g, channel);
  if (groups == 1) results.StoreParameters(column, g.rstd * sums[1], sums[0]);
}

// The totals of a channel over the groups, in the groups' order.
struct GroupsTotals {
  BackwardChannels of;
  ChannelResults results;
  int64_t groups, columns;

  __device__ void operator()(int64_t column) const {
    float of_weight = 0, of_bias = 0;
    for (int64_t group = 0; group < groups; ++group) {
      const float* const sum = of.totals + group * 2 * columns + column;
      of_weight += InverseDeviation(of.variance[group * columns + column], of.eps) * sum[columns];
      of_bias += sum[0];
    }
    results.StoreParameters(column, of_weight, of_bias);
  }
};

// Sets of.totals, which are after the partial sums in the workspace, and the results for channels.
template <typename T>
void SumColumns(const CudaContext& ctx, const BatchNormSums& by, const Summed<T>& summed,
                const ChannelResults& results, BackwardChannels& of) {
  float* const partials = static_cast<float*>(ctx.workspace);
  float* const totals = partials + by.chunks * by.totals();
  const bool aligned = Aligned(summed.dy, summed.x, summed.masked);
  WithPacks<T>(by.columns, aligned, [&]<int N, int kAcross>() {
    const dim3 grid(BlocksAcross<N, kAcross>(by.columns), static_cast<unsigned>(by.chunks),
                    static_cast<unsigned>(by.groups));
    SumsKernel<N, kAcross>
        <<<grid, kNormThreads, 0, ctx.stream>>>(summed, of, by.rows, by.columns, partials);
    gpu::CheckLaunch("batch_norm_backward: sums");
  });
  const int64_t channels = by.groups * by.columns;
  LaunchDependent(AddChunksKernel, dim3(static_cast<unsigned>((channels + kWarp - 1) / kWarp)),
                  dim3(kWarp, kWarp), ctx, static_cast<const float*>(partials), by.chunks,
                  by.groups, by.columns, of, results, totals);
  of.totals = totals;
  if (by.groups > 1 && (results.dweight != nullptr || results.dbias != nullptr)) {
    ForChannels(ctx, by.columns, GroupsTotals{of, results, by.groups, by.columns});
  }
}

void Backward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(2).dim(0), 2);
  BackwardChannels of{ctx.in<float>(2),
                      ctx.in<float>(3),
                      ctx.in<float>(4),
                      ctx.in<float>(8),
                      static_cast<float>(ctx.attributes.GetReal("eps")),
                      static_cast<float>(by.rows),
                      AppliesRelu(ctx.attributes),
                      GoesThroughStatistics(ctx.attributes),
                      static_cast<float>(ReluSlope(ctx.attributes)),
                      nullptr};
  bool summed = of.through;
  for (size_t i = 1; i < 5; ++i) summed = summed || ctx.has_output(i);
  const ChannelResults results{ctx.in<float>(6),  ctx.in<float>(7),  ctx.out<float>(1),
                               ctx.out<float>(2), ctx.out<float>(3), ctx.out<float>(4)};
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T *const dy = ctx.in<T>(0), *const x = ctx.in<T>(1);
    if (summed) SumColumns<T>(ctx, by, {dy, x, nullptr, nullptr}, results, of);
    if (!ctx.has_output(0)) return;
    const bool reads_x = of.relu || of.through;
    MapRows(ctx, by, BackwardTerms<T>{{dy, reads_x ? x : nullptr, ctx.in<T>(5)}, of}, ctx.out<T>(0),
            /*after_stage=*/summed);
  });
}

void ResidualBackward(const CudaContext& ctx) {
  const BatchNormSums by(ctx.in_shape(0), ctx.in_shape(3).dim(0), 2);
  BackwardChannels of{ctx.in<float>(3),
                      ctx.in<float>(4),
                      ctx.in<float>(5),
                      nullptr,
                      static_cast<float>(ctx.attributes.GetReal("eps")),
                      static_cast<float>(by.rows),
                      /*relu=*/false,
                      /*through=*/true,
                      /*slope=*/0,
                      nullptr};
  const ChannelResults results{ctx.in<float>(7), ctx.in<float>(8),  nullptr,
                               nullptr,          ctx.out<float>(2), ctx.out<float>(3)};
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T* const x = ctx.in<T>(2);
    T* const dresidual = ctx.out<T>(0);
    SumColumns<T>(ctx, by, {ctx.in<T>(0), x, ctx.in<uint8_t>(1), dresidual}, results, of);
    MapRows(ctx, by, BackwardTerms<T>{{dresidual, x, ctx.in<T>(6)}, of}, ctx.out<T>(1),
            /*after_stage=*/true);
  });
}

const CudaKernelRegistration kStatisticsBackward({"batch_norm_statistics_backward",
                                                  &StatisticsBackward});
const CudaKernelRegistration kForward({"batch_norm", &Forward});
const CudaKernelRegistration kBackward({"batch_norm_backward", &Backward});
const CudaKernelRegistration kResidualBackward({"batch_norm_residual_backward", &ResidualBackward});

}  // namespace
}  // namespace plimsoll::ops
