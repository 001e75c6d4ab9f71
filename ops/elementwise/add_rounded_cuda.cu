// y = acc + x, rounded stochastically (ops/elementwise/add_rounded.h). A thread takes eight
// elements, whose random bits are one Philox block, twice: all its loads come before its first
// store. Bytes: every argument once.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda/rounded_sum.h"
#include "ops/cuda/stochastic_rounding.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kEight = 8;  // elements of a Philox block
constexpr int kUnroll = 2;

// Loads the elements from `at` on; those beyond the end are zero.
template <typename T>
__device__ void LoadEight(const T* from, int64_t at, int64_t n, bool aligned, float (&to)[kEight]) {
  if (aligned && at + kEight <= n) {
    constexpr int kPack = kPackSize<T> < kEight ? kPackSize<T> : kEight;
#pragma unroll
    for (int i = 0; i < kEight; i += kPack) {
      float part[kPack];
      LoadPack<kPack>(from + at + i, part);
#pragma unroll
      for (int j = 0; j < kPack; ++j) to[i + j] = part[j];
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i) to[i] = at + i < n ? ToFloat(from[at + i]) : 0;
}

template <typename X>
__global__ __launch_bounds__(kThreads) void AddRoundedKernel(int64_t n, bool aligned,
                                                             RoundingStream stream,
                                                             const __nv_bfloat16* acc, const X* x,
                                                             __nv_bfloat16* y) {
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kUnroll) + threadIdx.x;
  float sums[kUnroll][kEight], terms[kUnroll][kEight];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t at = (first + u * kThreads) * kEight;
    LoadEight(acc, at, n, aligned, sums[u]);
    LoadEight(x, at, n, aligned, terms[u]);
  }
  const uint2 key = PhiloxKey(stream.rng);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t eight = first + u * kThreads, at = eight * kEight;
    if (at >= n) continue;
    const uint4 random =
        PhiloxBlock(key, stream.key, static_cast<uint64_t>(stream.first_block + eight));
    const uint32_t words[4] = {random.x, random.y, random.z, random.w};
    Pack<uint32_t, 4> rounded;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rounded.values[i] = RoundPairStochastically(
          sums[u][2 * i] + terms[u][2 * i], sums[u][2 * i + 1] + terms[u][2 * i + 1], words[i]);
    }
    if (aligned && at + kEight <= n) {
      *reinterpret_cast<Pack<uint32_t, 4>*>(y + at) = rounded;
      continue;
    }
    const auto* const elements = reinterpret_cast<const __nv_bfloat16*>(&rounded);
    for (int i = 0; i < kEight && at + i < n; ++i) y[at + i] = elements[i];
  }
}

}  // namespace

template <typename X>
void AddRounded(cudaStream_t stream, const RoundingStream& random, int64_t n,
                const __nv_bfloat16* acc, const X* x, __nv_bfloat16* y) {
  if (n == 0) return;
  constexpr int64_t kOfBlock = int64_t{kThreads} * kUnroll * kEight;
  const auto blocks = static_cast<unsigned>((n + kOfBlock - 1) / kOfBlock);
  AddRoundedKernel<<<blocks, kThreads, 0, stream>>>(n, Aligned(acc, x, y), random, acc, x, y);
  gpu::CheckLaunch("add_rounded");
}
template void AddRounded(cudaStream_t, const RoundingStream&, int64_t, const __nv_bfloat16*,
                         const float*, __nv_bfloat16*);
template void AddRounded(cudaStream_t, const RoundingStream&, int64_t, const __nv_bfloat16*,
                         const __nv_bfloat16*, __nv_bfloat16*);

namespace {

template <typename X>
void AddRoundedAs(const CudaContext& ctx) {
  const RoundingStream random{ctx.in<int32_t>(2),
                              static_cast<uint64_t>(ctx.attributes.GetInt("key"))};
  AddRounded(ctx.stream, random, ctx.in_shape(0).elements(), ctx.in<__nv_bfloat16>(0), ctx.in<X>(1),
             ctx.out<__nv_bfloat16>(0));
}

void AddRounded(const CudaContext& ctx) {
  if (ctx.inputs[1].type.dtype == graph::DType::kFloat32) return AddRoundedAs<float>(ctx);
  AddRoundedAs<__nv_bfloat16>(ctx);
}

const CudaKernelRegistration kAddRounded({"add_rounded", &AddRounded});

}  // namespace
}  // namespace plimsoll::ops
