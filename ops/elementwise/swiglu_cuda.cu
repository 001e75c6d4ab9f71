// swiglu and geglu: formulas in ops/elementwise/activations_cpu.cc. A thread takes two packs of
// results, and for each the pack of the gate and that of `up`, which is half a row further. Bytes
// for N rows of F results: 3·N·F·s, backward 5·N·F·s, both at once 6·N·F·s. The largest magnitudes
// of results take no bytes: each block adds its own.
#include "ops/cuda/activations.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

// Rows of gate_up have 2·half elements, those of dy and y half.
template <typename S>
struct GatedArguments {
  const S* gate_up;
  const S* dy;  // nullptr if only y is computed
  S* y;         // nullptr if only the gradient is computed
  S* dgate_up;
  // nullptr if not requested
  uint32_t* largest_y = nullptr;
  uint32_t* largest_dgate_up = nullptr;
};

constexpr int kThreads = 256;
constexpr int kUnroll = 2;

template <int N, bool kLargest, typename S>
__device__ void StoreRounded(S* to, const float (&values)[N], uint32_t& largest) {
  Pack<S, N> rounded;
#pragma unroll
  for (int i = 0; i < N; ++i) rounded.values[i] = FromFloat<S>(values[i]);
  *reinterpret_cast<Pack<S, N>*>(to) = rounded;
  if constexpr (kLargest) largest = WithMagnitudes(largest, rounded);
}

template <typename Gate, int N, bool kForward, bool kBackward, bool kLargest, typename S>
__global__ void __launch_bounds__(kThreads)
    GatedKernel(GatedArguments<S> args, uint32_t packs, uint32_t packs_per_row) {
  const uint32_t first = blockIdx.x * (kThreads * kUnroll) + threadIdx.x;
  const int64_t half = int64_t{packs_per_row} * N;
  Pack<S, N> gate[kUnroll], up[kUnroll], dy[kUnroll];
  int64_t at[kUnroll];  // indices of the gates
  uint32_t largest_y = 0, largest_dgate_up = 0;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const uint32_t pack = first + u * kThreads;
    if (pack >= packs) break;
    at[u] = int64_t{pack} * N + pack / packs_per_row * half;
    gate[u] = *reinterpret_cast<const Pack<S, N>*>(args.gate_up + at[u]);
    up[u] = *reinterpret_cast<const Pack<S, N>*>(args.gate_up + at[u] + half);
    if constexpr (kBackward) {
      dy[u] = *reinterpret_cast<const Pack<S, N>*>(args.dy + int64_t{pack} * N);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const uint32_t pack = first + u * kThreads;
    if (pack >= packs) break;
    float y[N], dgate[N], dup[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const ValueAndSlope of_gate = Gate()(ToFloat(gate[u].values[i]));
      const float other = ToFloat(up[u].values[i]);
      y[i] = __fmul_rn(of_gate.value, other);
      if constexpr (kBackward) {
        const float d = ToFloat(dy[u].values[i]);
        dgate[i] = __fmul_rn(__fmul_rn(d, other), of_gate.slope);
        dup[i] = __fmul_rn(d, of_gate.value);
      }
    }
    if constexpr (kForward) {
      StoreRounded<N, kLargest>(args.y + int64_t{pack} * N, y, largest_y);
    }
    if constexpr (kBackward) {
      StoreRounded<N, kLargest>(args.dgate_up + at[u], dgate, largest_dgate_up);
      StoreRounded<N, kLargest>(args.dgate_up + at[u] + half, dup, largest_dgate_up);
    }
  }
  if constexpr (kLargest) {
    __shared__ uint32_t shared[2][kThreads / kWarp];
    if (kForward && args.largest_y != nullptr) {
      AddLargest<kThreads>(largest_y, shared[0], args.largest_y);
    }
    if (kBackward && args.largest_dgate_up != nullptr) {
      AddLargest<kThreads>(largest_dgate_up, shared[1], args.largest_dgate_up);
    }
  }
}

template <typename Gate, int N, bool kForward, bool kBackward, typename S>
void LaunchRows(const CudaContext& ctx, GatedArguments<S> args, int64_t rows, int64_t half) {
  const auto packs_per_row = static_cast<uint32_t>(half / N);
  // Packs are counted in 32 bits, because 32-bit division is fast.
  const int64_t rows_at_once = (int64_t{1} << 31) / packs_per_row;
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    const auto packs = static_cast<uint32_t>(std::min(rows_at_once, rows - row) * packs_per_row);
    GatedArguments<S> part = args;
    part.gate_up += row * 2 * half;
    if (kForward) part.y += row * half;
    if (kBackward) {
      part.dy += row * half;
      part.dgate_up += row * 2 * half;
    }
    const uint32_t blocks = (packs + kThreads * kUnroll - 1) / (kThreads * kUnroll);
    const bool largest = args.largest_y != nullptr || args.largest_dgate_up != nullptr;
    auto* const kernel = largest ? &GatedKernel<Gate, N, kForward, kBackward, true, S>
                                 : &GatedKernel<Gate, N, kForward, kBackward, false, S>;
    kernel<<<blocks, kThreads, 0, ctx.stream>>>(part, packs, packs_per_row);
    gpu::CheckLaunch(ctx.op.name.c_str());
  }
}

// Computes y, or dgate_up, or both; they are the outputs of the op in this order. Gate gives the
// value and the slope of the gate's activation.
template <typename Gate, bool kForward, bool kBackward>
void RunGated(const CudaContext& ctx) {
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t rows = shape.rows(), half = shape.dim(-1) / 2;
  constexpr size_t kResults = kForward && kBackward ? 2 : 1;  // the largest magnitudes follow
  uint32_t* largest[2] = {ctx.out<uint32_t>(kResults), ctx.out<uint32_t>(kResults + 1)};
  for (uint32_t* of : largest) {
    if (of != nullptr) {
      gpu::Check(cudaMemsetAsync(of, 0, sizeof(*of), ctx.stream), "cudaMemsetAsync");
    }
  }
  if (rows == 0 || half == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const GatedArguments<S> args{ctx.in<S>(0),
                                 ctx.in<S>(1),
                                 kForward ? ctx.out<S>(0) : nullptr,
                                 kBackward ? ctx.out<S>(kForward) : nullptr,
                                 kForward ? largest[0] : nullptr,
                                 kBackward ? largest[kResults - 1] : nullptr};
    constexpr int N = kPackSize<S>;
    const bool aligned = half % N == 0 && IsAligned(args.gate_up, 16) && IsAligned(args.dy, 16) &&
                         IsAligned(args.y, 16) && IsAligned(args.dgate_up, 16);
    if (aligned) {
      LaunchRows<Gate, N, kForward, kBackward>(ctx, args, rows, half);
    } else {
      LaunchRows<Gate, 1, kForward, kBackward>(ctx, args, rows, half);
    }
  });
}

const CudaKernelRegistration kKernels[] = {
    CudaKernelRegistration({"swiglu", &RunGated<SiluFunction, true, false>}),
    CudaKernelRegistration({"swiglu_backward", &RunGated<SiluFunction, false, true>}),
    CudaKernelRegistration({"swiglu_with_backward", &RunGated<SiluFunction, true, true>}),
    CudaKernelRegistration({"geglu", &RunGated<TanhGelu, true, false>}),
    CudaKernelRegistration({"geglu_backward", &RunGated<TanhGelu, false, true>}),
    CudaKernelRegistration({"geglu_with_backward", &RunGated<TanhGelu, true, true>}),
};

}  // namespace
}  // namespace plimsoll::ops
