// Computes ops/optimizer/model_state.h with one thread for each element. States are small. Many of
// them share a launch. Bytes: every argument once.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

unsigned Blocks(int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

// One thread for each element. `state` and `next` may be the same memory.
template <typename S>
__global__ void MovingAverageKernel(int64_t n, const S* state, const S* value, int64_t values,
                                    float momentum, S* next) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = ToFloat(value[i]);
  for (int64_t v = 1; v < values; ++v) sum += ToFloat(value[v * n + i]);
  const float now = ToFloat(state[i]);
  next[i] = FromFloat<S>(now + (sum / static_cast<float>(values) - now) * momentum);
}

// The changes of float32 states; each state has its own row of blocks.
struct Change {
  const float *state, *value;
  float* next;
  int64_t n, values;
};
constexpr size_t kMostChanges = 64;  // a kernel's arguments are limited to 4 KB
struct Changes {
  Change each[kMostChanges];
};

template <typename Function>
__global__ void ChangesKernel(const __grid_constant__ Changes changes, Function function) {
  const Change& change = changes.each[blockIdx.y];
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < change.n) change.next[i] = function(change, i);
}

// Launches function(change, i) for as many changes at a time as possible. `alike`: whether a change
// may share the launch of the first one.
template <typename Alike, typename Function>
void LaunchChanges(std::span<const CudaContext> group, const Alike& alike,
                   const Function& function) {
  while (!group.empty()) {
    const CudaContext& first = group.front();
    Changes changes{};
    int64_t most = 0;
    unsigned count = 0;
    while (count < group.size() && count < kMostChanges && alike(first, group[count])) {
      const CudaContext& ctx = group[count];
      const int64_t n = ctx.in_shape(0).elements();
      changes.each[count++] = {ctx.in<float>(0), ctx.in<float>(1), ctx.out<float>(0), n,
                               n == 0 ? 0 : ctx.in_shape(1).elements() / n};
      most = std::max(most, n);
    }
    if (most > 0) {
      ChangesKernel<<<dim3(Blocks(most), count), kThreads, 0, first.stream>>>(changes,
                                                                              function(first));
      gpu::CheckLaunch(first.op.name.c_str());
    }
    group = group.subspan(count);
  }
}

struct Average {
  float momentum;
  __device__ float operator()(const Change& change, int64_t i) const {
    float sum = change.value[i];
    for (int64_t v = 1; v < change.values; ++v) sum += change.value[v * change.n + i];
    const float now = change.state[i];
    return now + (sum / static_cast<float>(change.values) - now) * momentum;
  }
};

void MovingAverageGroup(std::span<const CudaContext> group);

void MovingAverage(const CudaContext& ctx) {
  if (ctx.dtype() == graph::DType::kFloat32) return MovingAverageGroup({&ctx, 1});
  const int64_t n = ctx.in_shape(0).elements();
  if (n == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    MovingAverageKernel<<<Blocks(n), kThreads, 0, ctx.stream>>>(
        n, ctx.in<S>(0), ctx.in<S>(1), ctx.in_shape(1).elements() / n,
        static_cast<float>(ctx.attributes.GetReal("momentum")), ctx.out<S>(0));
  });
  gpu::CheckLaunch("moving_average");
}

struct Sum {
  __device__ float operator()(float state, float value) const { return state + value; }
};

void AddToState(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "add_to_state", ctx.in_shape(0).elements(), Sum(), ctx.out<S>(0), ctx.in<S>(0),
        ctx.in<S>(1));
  });
}

// The bits of a magnitude have the order of integers, with NaN above infinity.
__device__ int MagnitudeBits(float value) { return __float_as_int(value) & 0x7fffffff; }

struct Magnitude {
  __device__ float operator()(float value) const { return __int_as_float(MagnitudeBits(value)); }
};

struct LargerMagnitude {
  __device__ float operator()(float value, float state) const {
    return __int_as_float(max(MagnitudeBits(value), MagnitudeBits(state)));
  }
};

void MaxMagnitude(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  const auto *value = ctx.in<float>(0), *state = ctx.in<float>(1);
  if (state == nullptr) {
    Map(ctx.stream, "max_magnitude", n, Magnitude(), ctx.out<float>(0), value);
  } else {
    Map(ctx.stream, "max_magnitude", n, LargerMagnitude(), ctx.out<float>(0), value, state);
  }
}

void MovingAverageGroup(std::span<const CudaContext> group) {
  if (group.front().dtype() != graph::DType::kFloat32) {
    for (const CudaContext& ctx : group) MovingAverage(ctx);
    return;
  }
  const auto momentum = [](const CudaContext& ctx) {
    return static_cast<float>(ctx.attributes.GetReal("momentum"));
  };
  LaunchChanges(
      group,
      [&](const CudaContext& a, const CudaContext& b) {
        return b.dtype() == a.dtype() && momentum(a) == momentum(b);
      },
      [&](const CudaContext& first) { return Average{momentum(first)}; });
}

struct Commit {
  float parts;
  const int32_t* apply;
  __device__ float operator()(const Change& change, int64_t i) const {
    return apply == nullptr || *apply != 0 ? change.value[i] / parts : change.state[i];
  }
};

void CommitStateGroup(std::span<const CudaContext> group) {
  const auto parts = [](const CudaContext& ctx) { return ctx.attributes.GetInt("parts"); };
  LaunchChanges(
      group,
      [&](const CudaContext& a, const CudaContext& b) {
        return parts(a) == parts(b) && a.in<int32_t>(2) == b.in<int32_t>(2);
      },
      [&](const CudaContext& first) {
        return Commit{static_cast<float>(parts(first)), first.in<int32_t>(2)};
      });
}
void CommitState(const CudaContext& ctx) { CommitStateGroup({&ctx, 1}); }

const CudaKernelRegistration kMovingAverage({"moving_average", &MovingAverage, nullptr,
                                             &MovingAverageGroup});
const CudaKernelRegistration kAddToState({"add_to_state", &AddToState});
const CudaKernelRegistration kMaxMagnitude({"max_magnitude", &MaxMagnitude});
const CudaKernelRegistration kCommitState({"commit_state", &CommitState, nullptr,
                                           &CommitStateGroup});

}  // namespace
}  // namespace plimsoll::ops
