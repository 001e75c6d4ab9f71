// Statistics: mean = Σ x / n, then variance = Σ (x − mean)² / n, over the n rows of a group.
// Forward: y = (x − mean) · s + bias with s = rstd · weight, rstd = 1 / √(variance + eps), rounded,
// plus the residual. With relu y becomes max(y, 0), and in the backward pass dy counts as 0 where y
// is 0; with a slope, the slope times y or dy replaces 0. With a residual, the backward op reads
// from bits where y is positive, one for each element (positive_bits.h). Backward, with d = x −
// mean and sums over the rows of a group:
//   dx = s · dy,   dmean = −s · Σdy,   dvariance = −½ · rstd² · s · Σ(dy·d),
//   dweight = Σ_groups rstd · Σ(dy·d),   dbias = Σ_groups Σdy;
// and through the statistics dx = (dmean + 2 · dvariance · d) / n, which the backward op adds with
// the attribute through_statistics.
//
// Merging R sets of n values: mean = Σ mean_r / R, variance = Σ (variance_r + (mean_r − mean)²) /
// R, and backward dvariance_r = dvariance / R, dmean_r = (dmean + 2 · dvariance · (mean_r − mean))
// / R.
//
// Threads share chunks of rows, each with partial sums that are added in the order of the chunks
// (ops/reductions/row_partials.h); within a chunk, blocks of rows are summed first. Bytes for N
// elements: statistics 2·N·s, forward 2·N·s, with a residual 3·N·s + N/8, backward 4·N·s, with the
// residual 6·N·s + N/8, backward of statistics 3·N·s.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "ops/kernel.h"
#include "ops/norms/batch_norm_attributes.h"
#include "ops/norms/positive_bits.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::TensorType;

constexpr int64_t kBlockRows = 32;

// The sizes of groups of samples: number of groups, rows of a group, channels.
struct Groups {
  int64_t count, rows, channels;
};
Groups GroupsOf(const graph::Shape& x, int64_t count) {
  return {count, x.rows() / count, x.dim(-1)};
}

TensorType GroupType(const TensorType& x, int64_t groups) {
  return {x.dtype, {x.shape.rows() / groups, x.shape.dim(-1)}};
}

// Adds up terms(row, channel, count), an array of `kSums` vectors, over the rows of a group. Sum i
// is sum number kSums + i of Combine; the partials before it hold the sums of the current block.
template <int kSums, typename T, typename Terms>
void SumRows(const RowPartials<T>& partials, int64_t channels, ThreadPool& pool,
             const Terms& terms) {
  partials.ForChunks(pool, [&](int64_t begin, int64_t end, T* partial) {
    for (int64_t block = begin; block < end; block += kBlockRows) {
      const int64_t last = std::min(end, block + kBlockRows);
      for (int64_t row = block; row < last; ++row) {
        ForVectors<T>(0, channels, [&](int64_t i, auto count) {
          const std::array<Vec<T>, kSums> added = terms(row, i, count);
          for (int k = 0; k < kSums; ++k) {
            T* const sum = partial + k * channels + i;
            Store<T>(sum, row == block ? added[k] : Load<T>(sum, count) + added[k], count);
          }
        });
      }
      for (int64_t i = 0; i < kSums * channels; ++i) partial[kSums * channels + i] += partial[i];
    }
  });
}

template <typename T>
void Divide(T* values, int64_t count, int64_t by) {
  for (int64_t i = 0; i < count; ++i) values[i] /= static_cast<T>(by);
}

void Statistics(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Groups groups = GroupsOf(ctx.in_shape(0), ctx.out_shape(0).dim(0));
    const int64_t channels = groups.channels;
    const RowPartials<T> partials(ctx, groups.rows, channels, 2);
    for (int64_t g = 0; g < groups.count; ++g) {
      const S* const x = ctx.in<S>(0) + g * groups.rows * channels;
      T *mean = ctx.out<T>(0) + g * channels, *variance = ctx.out<T>(1) + g * channels;
      SumRows<1>(partials, channels, ctx.pool, [&](int64_t row, int64_t i, auto count) {
        return std::array{Load<T>(x + row * channels + i, count)};
      });
      partials.Combine(ctx.pool, 1, nullptr, mean);
      Divide(mean, channels, groups.rows);
      SumRows<1>(partials, channels, ctx.pool, [&](int64_t row, int64_t i, auto count) {
        const Vec<T> d = Load<T>(x + row * channels + i, count) - Load<T>(mean + i, count);
        return std::array<Vec<T>, 1>{d * d};
      });
      partials.Combine(ctx.pool, 1, nullptr, variance);
      if (ctx.has_output(2)) {
        T* const unbiased = ctx.out<T>(2) + g * channels;
        std::copy_n(variance, channels, unbiased);
        Divide(unbiased, channels, groups.rows - 1);
      }
      Divide(variance, channels, groups.rows);
    }
  });
}

int64_t StatisticsWorkspace(const OpCall& call, int /*threads*/) {
  return RowPartialsBytes(GroupType(call.input(0), call.attributes.GetInt("groups")), 2);
}

void Merge(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t sets = ctx.in_shape(0).dim(0), channels = ctx.in_shape(0).dim(1);
    const auto all = static_cast<T>(sets * ctx.attributes.GetInt("n"));
    const S *means = ctx.in<S>(0), *variances = ctx.in<S>(1);
    S *mean = ctx.out<S>(0), *variance = ctx.out<S>(1);
    S* const unbiased = ctx.has_output(2) ? ctx.out<S>(2) : nullptr;
    const auto at = [](const S* from, int64_t i) { return Load<T>(from + i, 1)[0]; };
    const auto put = [](S* to, T value) { Store<T>(to, Vec<T>{value}, 1); };
    for (int64_t c = 0; c < channels; ++c) {
      T middle = 0, within = 0;
      for (int64_t r = 0; r < sets; ++r) middle += at(means, r * channels + c);
      middle /= static_cast<T>(sets);
      for (int64_t r = 0; r < sets; ++r) {
        const T d = at(means, r * channels + c) - middle;
        within += at(variances, r * channels + c) + d * d;
      }
      within /= static_cast<T>(sets);
      put(mean + c, middle);
      put(variance + c, within);
      if (unbiased != nullptr) put(unbiased + c, within * (all / (all - 1)));
    }
  });
}

void MergeBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t sets = ctx.in_shape(0).dim(0), channels = ctx.in_shape(0).dim(1);
    const auto at = [&](size_t input, int64_t i) {
      return ctx.has_input(input) ? Load<T>(ctx.in<S>(input) + i, 1)[0] : T(0);
    };
    for (int64_t i = 0; i < sets * channels; ++i) {
      const int64_t c = i % channels;
      const T dvariance = at(3, c) / static_cast<T>(sets);
      const T dmean = at(2, c) / static_cast<T>(sets) + 2 * dvariance * (at(0, i) - at(1, c));
      if (ctx.has_output(0)) Store<T>(ctx.out<S>(0) + i, Vec<T>{dmean}, 1);
      if (ctx.has_output(1)) Store<T>(ctx.out<S>(1) + i, Vec<T>{dvariance}, 1);
    }
  });
}

// Computes rstd, and scale = rstd · weight, of a group.
template <typename T>
void Scales(const T* variance, const T* weight, T eps, int64_t channels, T* rstd, T* scale) {
  for (int64_t i = 0; i < channels; ++i) {
    rstd[i] = 1 / std::sqrt(variance[i] + eps);
    scale[i] = rstd[i] * weight[i];
  }
}

// Normalizes x, with weight and bias; `scale` is rstd · weight. The forward and backward ops use
// the same operations, hence get the same bits.
template <typename T>
Vec<T> Normalised(Vec<T> x, const T* mean, const T* scale, const T* bias, int64_t channel,
                  int count) {
  const Vec<T> d = x - Load<T>(mean + channel, count);
  return d * Load<T>(scale + channel, count) + Load<T>(bias + channel, count);
}

// The value after rounding to the stored type.
template <typename S, typename T>
Vec<T> Rounded(Vec<T> value) {
  if constexpr (std::is_same_v<S, T>) {
    return value;
  } else {
    S stored[kLanes<T>];
    Store<T>(stored, value);
    return Load<T>(stored);
  }
}

// `passed` where y is positive, slope · passed elsewhere. A slope of 0 is no product, which would
// give −0, and NaN for infinities.
template <typename T>
Vec<T> Rectified(Vec<T> y, Vec<T> passed, T slope) {
  return y <= 0 ? (slope == 0 ? Vec<T>{} : passed * slope) : passed;
}

// `acc` plus the gradient of x through the statistics of n values.
template <typename T>
Vec<T> ThroughStatistics(Vec<T> x, const T* mean, const T* dmean, const T* dvariance, T n,
                         int64_t channel, int count, Vec<T> acc) {
  Vec<T> result = {};
  if (dmean != nullptr) result += Load<T>(dmean + channel, count) / n;
  if (dvariance != nullptr) {
    const Vec<T> d = x - Load<T>(mean + channel, count);
    result += d * (2 * Load<T>(dvariance + channel, count) / n);
  }
  return result + acc;
}

// Calls visit(row, channel, count) for the vectors of a group's rows.
template <typename T, typename Visit>
void ForVectorsOfRows(const Groups& groups, ThreadPool& pool, const Visit& visit) {
  pool.ParallelFor(groups.rows, RowGrain(groups.channels), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      ForVectors<T>(0, groups.channels, [&](int64_t i, auto count) { visit(row, i, count); });
    }
  });
}

// Calls visit(row · C, channel, count) for each SIMD vector of a group's rows: `count` values from
// `channel` on.
template <typename T, typename Visit>
void ForRows(const Groups& groups, ThreadPool& pool, const Visit& visit) {
  ForVectorsOfRows<T>(groups, pool, [&](int64_t row, int64_t i, auto count) {
    visit(row * groups.channels, i, count);
  });
}

// Writes which of the first `count` values of y are positive; they are those of the channels from
// `channel` on. A vector has the bits of one byte or of half of one, and a row is written from its
// start.
template <typename T>
void StorePositive(uint8_t* row, Vec<T> y, int64_t channel, int count) {
  unsigned bits = 0;
  for (int k = 0; k < kLanes<T>; ++k) bits |= (k < count && !(y[k] <= 0) ? 1u : 0u) << k;
  uint8_t& byte = row[channel / 8];
  byte = static_cast<uint8_t>(channel % 8 == 0 ? bits : byte | bits << channel % 8);
}

// `gradient` where y is positive, 0 elsewhere, for the vector that begins at `channel`.
template <typename T>
Vec<T> WherePositive(const uint8_t* row, Vec<T> gradient, int64_t channel) {
  decltype(gradient <= 0) bits = {};
  for (int k = 0; k < kLanes<T>; ++k) bits[k] = row[channel / 8] >> (channel % 8 + k) & 1;
  return bits != 0 ? gradient : Vec<T>{};
}

void Forward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Groups groups = GroupsOf(ctx.in_shape(0), ctx.in_shape(1).dim(0));
    const int64_t channels = groups.channels, bytes = PositiveBytes(channels);
    const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
    T *rstd = static_cast<T*>(ctx.workspace), *scale = rstd + channels;
    const T* const bias = ctx.in<T>(4);
    const bool relu = AppliesRelu(ctx.attributes);
    const T slope = static_cast<T>(ReluSlope(ctx.attributes));
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t first = g * groups.rows * channels;
      const S* const x = ctx.in<S>(0) + first;
      const S* const residual = ctx.has_input(5) ? ctx.in<S>(5) + first : nullptr;
      S* const y = ctx.out<S>(0) + first;
      uint8_t* const positive =
          ctx.has_output(1) ? ctx.out<uint8_t>(1) + g * groups.rows * bytes : nullptr;
      const T* const mean = ctx.in<T>(1) + g * channels;
      Scales(ctx.in<T>(2) + g * channels, ctx.in<T>(3), eps, channels, rstd, scale);
      ForVectorsOfRows<T>(groups, ctx.pool, [&](int64_t row, int64_t i, auto count) {
        const int64_t at = row * channels + i;
        Vec<T> value = Normalised(Load<T>(x + at, count), mean, scale, bias, i, count);
        if (residual != nullptr) value = Rounded<S, T>(value) + Load<T>(residual + at, count);
        if (relu) value = Rectified(value, value, slope);
        Store<T>(y + at, value, count);
        if (positive != nullptr) {
          StorePositive<T>(positive + row * bytes, Rounded<S, T>(value), i, count);
        }
      });
    }
  });
}

int64_t ForwardWorkspace(const OpCall& call, int /*threads*/) {
  return 2 * call.input(0).shape.dim(-1) * graph::ByteSize(graph::ComputeType(call.input(0).dtype));
}

// The terms that the backward pass computes for each channel of a group.
template <typename T>
struct ChannelTerms {
  T *rstd, *scale, *dy, *dyd;  // 1 / √(variance + eps), rstd · weight, Σdy, Σ(dy·d)
  T *dmean, *dvariance;
  static constexpr int64_t kTerms = 6;
  ChannelTerms(void* memory, int64_t channels)
      : rstd(static_cast<T*>(memory)),
        scale(rstd + channels),
        dy(scale + channels),
        dyd(dy + channels),
        dmean(dyd + channels),
        dvariance(dmean + channels) {}
};

// The arguments of a backward op; absent ones are nullptr.
template <typename S, typename T>
struct BackwardArguments {
  const S *dy, *x;
  const T *mean, *variance, *weight;
  const S* acc_x;
  const T *acc_weight, *acc_bias, *bias;  // bias: only with relu
  S* dx;
  T *dmean, *dvariance, *dweight, *dbias;
  bool relu, through;
  T slope;  // only with relu
  Groups groups;
};

template <typename S, typename T>
void ComputeGradients(const CpuContext& ctx, const BackwardArguments<S, T>& of) {
  const Groups& groups = of.groups;
  const int64_t channels = groups.channels;
  const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
  const RowPartials<T> partials(ctx, groups.rows, channels, 4);
  const ChannelTerms<T> terms(static_cast<std::byte*>(ctx.workspace) +
                                  RowPartialsBytes(GroupType(ctx.inputs[0].type, groups.count), 4),
                              channels);
  const bool sums = of.through || of.dmean != nullptr || of.dvariance != nullptr ||
                    of.dweight != nullptr || of.dbias != nullptr;
  const T n = static_cast<T>(groups.rows);
  for (int64_t g = 0; g < groups.count; ++g) {
    const int64_t first = g * groups.rows * channels;
    const S *const dy = of.dy + first, *const x = of.x + first;
    const T* const mean = of.mean + g * channels;
    Scales(of.variance + g * channels, of.weight, eps, channels, terms.rstd, terms.scale);
    // The gradient of the value before the ReLU.
    const auto gradient_at = [&](int64_t at, int64_t i, auto count) {
      const Vec<T> gradient = Load<T>(dy + at, count);
      if (!of.relu) return gradient;
      const Vec<T> y =
          Rounded<S, T>(Normalised(Load<T>(x + at, count), mean, terms.scale, of.bias, i, count));
      return Rectified(y, gradient, of.slope);
    };
    if (sums) {
      SumRows<2>(partials, channels, ctx.pool, [&](int64_t row, int64_t i, auto count) {
        const int64_t at = row * channels + i;
        const Vec<T> gradient = gradient_at(at, i, count);
        return std::array<Vec<T>, 2>{
            gradient, gradient * (Load<T>(x + at, count) - Load<T>(mean + i, count))};
      });
      partials.Combine(ctx.pool, 2, nullptr, terms.dy);
      partials.Combine(ctx.pool, 3, nullptr, terms.dyd);
    }
    for (int64_t i = 0; i < channels; ++i) {
      terms.dmean[i] = -terms.scale[i] * terms.dy[i];
      terms.dvariance[i] = -terms.rstd[i] * terms.rstd[i] * terms.scale[i] * terms.dyd[i] / 2;
      if (of.dmean != nullptr) of.dmean[g * channels + i] = terms.dmean[i];
      if (of.dvariance != nullptr) of.dvariance[g * channels + i] = terms.dvariance[i];
      const auto add = [&](const T* acc, T* sum, T value) {
        if (sum != nullptr) sum[i] = (g > 0 ? sum[i] : acc != nullptr ? acc[i] : T(0)) + value;
      };
      add(of.acc_weight, of.dweight, terms.rstd[i] * terms.dyd[i]);
      add(of.acc_bias, of.dbias, terms.dy[i]);
    }
    if (of.dx == nullptr) continue;
    S* const dx = of.dx + first;
    const S* const acc = of.acc_x == nullptr ? nullptr : of.acc_x + first;
    ForRows<T>(groups, ctx.pool, [&](int64_t at, int64_t i, auto count) {
      Vec<T> result = gradient_at(at + i, i, count) * Load<T>(terms.scale + i, count);
      if (acc != nullptr) result += Load<T>(acc + at + i, count);
      if (of.through) {
        result = ThroughStatistics(Load<T>(x + at + i, count), mean, terms.dmean, terms.dvariance,
                                   n, i, count, Rounded<S, T>(result));
      }
      Store<T>(dx + at + i, result, count);
    });
  }
}

void Backward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    ComputeGradients<S, T>(ctx, {.dy = ctx.in<S>(0),
                                 .x = ctx.in<S>(1),
                                 .mean = ctx.in<T>(2),
                                 .variance = ctx.in<T>(3),
                                 .weight = ctx.in<T>(4),
                                 .acc_x = ctx.in<S>(5),
                                 .acc_weight = ctx.in<T>(6),
                                 .acc_bias = ctx.in<T>(7),
                                 .bias = ctx.in<T>(8),
                                 .dx = ctx.out<S>(0),
                                 .dmean = ctx.out<T>(1),
                                 .dvariance = ctx.out<T>(2),
                                 .dweight = ctx.out<T>(3),
                                 .dbias = ctx.out<T>(4),
                                 .relu = AppliesRelu(ctx.attributes),
                                 .through = GoesThroughStatistics(ctx.attributes),
                                 .slope = static_cast<T>(ReluSlope(ctx.attributes)),
                                 .groups = GroupsOf(ctx.in_shape(0), ctx.in_shape(2).dim(0))});
  });
}

void ResidualBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Groups groups = GroupsOf(ctx.in_shape(0), ctx.in_shape(3).dim(0));
    const S* const dy = ctx.in<S>(0);
    const uint8_t* const positive = ctx.in<uint8_t>(1);
    S* const dresidual = ctx.out<S>(0);
    const int64_t bytes = PositiveBytes(groups.channels);
    ForVectorsOfRows<T>({1, ctx.in_shape(0).rows(), groups.channels}, ctx.pool,
                        [&](int64_t row, int64_t i, auto count) {
                          const int64_t at = row * groups.channels + i;
                          const Vec<T> gradient = Load<T>(dy + at, count);
                          Store<T>(dresidual + at,
                                   WherePositive<T>(positive + row * bytes, gradient, i), count);
                        });
    ComputeGradients<S, T>(ctx, {.dy = dresidual,
                                 .x = ctx.in<S>(2),
                                 .mean = ctx.in<T>(3),
                                 .variance = ctx.in<T>(4),
                                 .weight = ctx.in<T>(5),
                                 .acc_x = ctx.in<S>(6),
                                 .acc_weight = ctx.in<T>(7),
                                 .acc_bias = ctx.in<T>(8),
                                 .bias = nullptr,
                                 .dx = ctx.out<S>(1),
                                 .dmean = nullptr,
                                 .dvariance = nullptr,
                                 .dweight = ctx.out<T>(2),
                                 .dbias = ctx.out<T>(3),
                                 .relu = false,
                                 .through = true,
                                 .slope = 0,
                                 .groups = groups});
  });
}

template <size_t kMean>
int64_t BackwardWorkspace(const OpCall& call, int /*threads*/) {
  const TensorType& x = call.input(0);
  return RowPartialsBytes(GroupType(x, call.input(kMean).shape.dim(0)), 4) +
         ChannelTerms<float>::kTerms * x.shape.dim(-1) *
             graph::ByteSize(graph::ComputeType(x.dtype));
}

void StatisticsBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Groups groups = GroupsOf(ctx.in_shape(0), ctx.in_shape(1).dim(0));
    const T n = static_cast<T>(groups.rows);
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t first = g * groups.rows * groups.channels, channel = g * groups.channels;
      const S* const x = ctx.in<S>(0) + first;
      const T* const mean = ctx.in<T>(1) + channel;
      const T* const dmean = ctx.has_input(2) ? ctx.in<T>(2) + channel : nullptr;
      const T* const dvariance = ctx.has_input(3) ? ctx.in<T>(3) + channel : nullptr;
      const S* const acc = ctx.has_input(4) ? ctx.in<S>(4) + first : nullptr;
      S* const dx = ctx.out<S>(0) + first;
      ForRows<T>(groups, ctx.pool, [&](int64_t at, int64_t i, auto count) {
        const Vec<T> added = acc == nullptr ? Vec<T>{} : Load<T>(acc + at + i, count);
        Store<T>(dx + at + i,
                 ThroughStatistics(Load<T>(x + at + i, count), mean, dmean, dvariance, n, i, count,
                                   added),
                 count);
      });
    }
  });
}

const CpuKernelRegistration kStatistics({"batch_norm_statistics", &Statistics,
                                         &StatisticsWorkspace});
const CpuKernelRegistration kMerge({"merge_batch_norm_statistics", &Merge});
const CpuKernelRegistration kMergeBackward({"merge_batch_norm_statistics_backward",
                                            &MergeBackward});
const CpuKernelRegistration kForward({"batch_norm", &Forward, &ForwardWorkspace});
const CpuKernelRegistration kStatisticsBackward({"batch_norm_statistics_backward",
                                                 &StatisticsBackward});
const CpuKernelRegistration kBackward({"batch_norm_backward", &Backward, &BackwardWorkspace<2>});
const CpuKernelRegistration kResidualBackward({"batch_norm_residual_backward", &ResidualBackward,
                                               &BackwardWorkspace<3>});

}  // namespace
}  // namespace plimsoll::ops
