// For a sample and a group of k channels: mean = Σ mean_j / k, variance = Σ (variance_j + d_j²) / k
// with d_j = mean_j − mean. Backward, with Σ over the group's results:
//   dvariance_j = Σ dvariance / k,   dmean_j = (Σ dmean + 2 · Σ dvariance · d_j) / k.
// Runs on one thread, because statistics are few. Bytes: every argument once.
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

template <typename T, typename S>
T ElementOf(const S* from, int64_t i) {
  return Load<T>(from + i, 1)[0];
}

template <typename T, typename S>
void SetElement(S* to, int64_t i, T value) {
  Store<T>(to + i, Vec<T>{value}, 1);
}

void MergeChannels(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t of_group = ctx.in_shape(0).dim(1) / ctx.attributes.GetInt("groups");
    const S *means = ctx.in<S>(0), *variances = ctx.in<S>(1);
    for (int64_t first = 0; first < ctx.in_shape(0).elements(); first += of_group) {
      T mean = 0, variance = 0;
      for (int64_t i = first; i < first + of_group; ++i) mean += ElementOf<T>(means, i);
      mean /= static_cast<T>(of_group);
      for (int64_t i = first; i < first + of_group; ++i) {
        const T d = ElementOf<T>(means, i) - mean;
        variance += ElementOf<T>(variances, i) + d * d;
      }
      variance /= static_cast<T>(of_group);
      for (int64_t i = first; i < first + of_group; ++i) {
        SetElement(ctx.out<S>(0), i, mean);
        SetElement(ctx.out<S>(1), i, variance);
      }
    }
  });
}

void MergeChannelsBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t of_group = ctx.in_shape(0).dim(1) / ctx.attributes.GetInt("groups");
    for (int64_t first = 0; first < ctx.in_shape(0).elements(); first += of_group) {
      // The mean over the group of the results' gradients; absent gradients are 0.
      const auto share = [&](size_t input) {
        T sum = 0;
        if (!ctx.has_input(input)) return sum;
        for (int64_t i = first; i < first + of_group; ++i) {
          sum += ElementOf<T>(ctx.in<S>(input), i);
        }
        return sum / static_cast<T>(of_group);
      };
      const T dmean = share(2), dvariance = share(3);
      for (int64_t i = first; i < first + of_group; ++i) {
        const T d = ElementOf<T>(ctx.in<S>(0), i) - ElementOf<T>(ctx.in<S>(1), i);
        if (ctx.has_output(0)) SetElement(ctx.out<S>(0), i, dmean + 2 * dvariance * d);
        if (ctx.has_output(1)) SetElement(ctx.out<S>(1), i, dvariance);
      }
    }
  });
}

const CpuKernelRegistration kMergeChannels({"merge_channel_statistics", &MergeChannels});
const CpuKernelRegistration kMergeChannelsBackward({"merge_channel_statistics_backward",
                                                    &MergeChannelsBackward});

}  // namespace
}  // namespace plimsoll::ops
