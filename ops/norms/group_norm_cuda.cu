// Formulas in ops/norms/group_norm_cpu.cc. A thread takes a sample's group of channels; the
// statistics are few. Bytes: every argument two or three times, most of them from the cache.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 128;

unsigned Blocks(int64_t groups) {
  return static_cast<unsigned>((groups + kThreads - 1) / kThreads);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    MergeKernel(const T* means, const T* variances, int64_t groups, int64_t of_group, T* mean,
                T* variance) {
  const int64_t group = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (group >= groups) return;
  const int64_t first = group * of_group, end = first + of_group;
  float middle = 0, within = 0;
  for (int64_t i = first; i < end; ++i) middle += ToFloat(means[i]);
  middle /= static_cast<float>(of_group);
  for (int64_t i = first; i < end; ++i) {
    const float d = ToFloat(means[i]) - middle;
    within += ToFloat(variances[i]) + d * d;
  }
  within /= static_cast<float>(of_group);
  for (int64_t i = first; i < end; ++i) {
    mean[i] = FromFloat<T>(middle);
    variance[i] = FromFloat<T>(within);
  }
}

// The mean of the gradients of a group's results; absent gradients are 0.
template <typename T>
__device__ float Share(const T* gradients, int64_t first, int64_t of_group) {
  if (gradients == nullptr) return 0;
  float sum = 0;
  for (int64_t i = first; i < first + of_group; ++i) sum += ToFloat(gradients[i]);
  return sum / static_cast<float>(of_group);
}

// dmean, dvariance, dmeans and dvariances may be nullptr.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    MergeBackwardKernel(const T* means, const T* mean, const T* dmean, const T* dvariance,
                        int64_t groups, int64_t of_group, T* dmeans, T* dvariances) {
  const int64_t group = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (group >= groups) return;
  const int64_t first = group * of_group;
  const float of_mean = Share(dmean, first, of_group);
  const float of_variance = Share(dvariance, first, of_group);
  for (int64_t i = first; i < first + of_group; ++i) {
    const float d = ToFloat(means[i]) - ToFloat(mean[i]);
    if (dmeans != nullptr) dmeans[i] = FromFloat<T>(of_mean + 2 * of_variance * d);
    if (dvariances != nullptr) dvariances[i] = FromFloat<T>(of_variance);
  }
}

// The number of channels in a group.
int64_t ChannelsOfGroup(const CudaContext& ctx) {
  return ctx.in_shape(0).dim(1) / ctx.attributes.GetInt("groups");
}

void MergeChannels(const CudaContext& ctx) {
  const int64_t of_group = ChannelsOfGroup(ctx), groups = ctx.in_shape(0).elements() / of_group;
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    MergeKernel<T><<<Blocks(groups), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), ctx.in<T>(1), groups, of_group, ctx.out<T>(0), ctx.out<T>(1));
  });
  gpu::CheckLaunch("merge_channel_statistics");
}

void MergeChannelsBackward(const CudaContext& ctx) {
  const int64_t of_group = ChannelsOfGroup(ctx), groups = ctx.in_shape(0).elements() / of_group;
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    MergeBackwardKernel<T><<<Blocks(groups), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), ctx.in<T>(1), ctx.in<T>(2), ctx.in<T>(3), groups, of_group, ctx.out<T>(0),
        ctx.out<T>(1));
  });
  gpu::CheckLaunch("merge_channel_statistics_backward");
}

const CudaKernelRegistration kMergeChannels({"merge_channel_statistics", &MergeChannels});
const CudaKernelRegistration kMergeChannelsBackward({"merge_channel_statistics_backward",
                                                     &MergeChannelsBackward});

}  // namespace
}  // namespace plimsoll::ops
