// Kernels that only compute out[i] = function(in[i], …), in float, rounded once. Each takes one
// line.
//
// A thread moves packs of 16 bytes, several at once to hide the latency of memory: all its loads
// come before its first store, so that any output may also have the memory of any input. Tensors
// that do not begin at a multiple of 16 bytes (views) are processed element by element.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

// The result of a function with several outputs.
template <int kCount>
struct Results {
  float values[kCount];
};

inline bool IsAligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

namespace map_internal {

constexpr int kThreads = 256;

template <typename T, int N>
__device__ Pack<T, N> Read(const T* from, int64_t pack) {
  return *reinterpret_cast<const Pack<T, N>*>(from + pack * N);
}

__device__ inline float Result(float value, int) { return value; }
template <int kCount>
__device__ float Result(const Results<kCount>& results, int i) {
  return results.values[i];
}

template <int N>
struct Floats {
  float values[N];
};

template <typename T, int N>
__device__ Floats<N> Unpack(const Pack<T, N>& pack) {
  Floats<N> floats;
  ToFloats(pack, floats.values);
  return floats;
}

// Where the largest magnitude of each output is written; nullptr: it is not found.
template <size_t kOuts>
using Largest = std::array<uint32_t*, kOuts>;

// Computes one pack of each output from one pack of each input. kLargest: whether `seen` keeps the
// largest magnitude of each output.
template <int N, bool kLargest, typename Out, size_t kOuts, typename Function, typename... In>
__device__ void MapPack(const Function& function, const std::array<Out*, kOuts>& out,
                        uint32_t (&seen)[kOuts], int64_t pack, const In&... in) {
  float results[kOuts][N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const auto result = function(in.values[i]...);
#pragma unroll
    for (int o = 0; o < static_cast<int>(kOuts); ++o) results[o][i] = Result(result, o);
  }
#pragma unroll
  for (int o = 0; o < static_cast<int>(kOuts); ++o) {
    const Pack<Out, N> rounded = RoundPack<Out, N>(results[o]);
    if (!kLargest || out[o] != nullptr) WriteGlobal(out[o] + pack * N, rounded);
    if constexpr (kLargest) seen[o] = WithMagnitudes(seen[o], rounded);
  }
}

// A block takes kThreads · kUnroll packs; the last one also takes the elements that fill no pack.
template <int N, int kUnroll, bool kLargest, typename Out, size_t kOuts, typename Function,
          typename... In>
__device__ void MapBlock(int64_t n, const Function& function, const std::array<Out*, kOuts>& out,
                         uint32_t (&seen)[kOuts], const In*... in) {
  const int64_t packs = n / N;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kUnroll) + threadIdx.x;
  const auto map = [&](int u, const Pack<In, N>&... loaded) {
    MapPack<N, kLargest>(function, out, seen, first + u * kThreads, Unpack(loaded)...);
  };
  std::tuple<Pack<In, N>...> loaded[kUnroll];
  if (int64_t{blockIdx.x + 1} * (kThreads * kUnroll) <= packs) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) loaded[u] = {Read<In, N>(in, first + u * kThreads)...};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      std::apply([&](const auto&... pack) { map(u, pack...); }, loaded[u]);
    }
    return;
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kThreads < packs) loaded[u] = {Read<In, N>(in, first + u * kThreads)...};
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kThreads >= packs) continue;
    std::apply([&](const auto&... pack) { map(u, pack...); }, loaded[u]);
  }
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x < n - packs * N) {
    const int64_t i = packs * N + threadIdx.x;
    MapPack<1, kLargest>(function, out, seen, i, Unpack(Read<In, 1>(in, i))...);
  }
}

template <int N, int kUnroll, typename Out, size_t kOuts, typename Function, typename... In>
__global__ void __launch_bounds__(kThreads)
    MapKernel(int64_t n, Function function, std::array<Out*, kOuts> out, const In*... in) {
  uint32_t seen[kOuts];
  MapBlock<N, kUnroll, false>(n, function, out, seen, in...);
}

template <int N, int kUnroll, typename Out, size_t kOuts, typename Function, typename... In>
__global__ void __launch_bounds__(kThreads)
    MapKernelWithLargest(int64_t n, Function function, std::array<Out*, kOuts> out,
                         Largest<kOuts> largest, const In*... in) {
  __shared__ uint32_t shared[kOuts][kThreads / kWarp];
  uint32_t seen[kOuts] = {};
  MapBlock<N, kUnroll, true>(n, function, out, seen, in...);
#pragma unroll
  for (int o = 0; o < static_cast<int>(kOuts); ++o) {
    if (largest[o] != nullptr) AddLargest<kThreads>(seen[o], shared[o], largest[o]);
  }
}

// Calls launch.template operator()<elements of a pack, packs of a thread>(blocks).
template <typename Launch, typename Out, size_t kOuts, typename... In>
void LaunchInPacks(const char* name, int64_t n, const Launch& launch,
                   const std::array<Out*, kOuts>& out, const In*... in) {
  // The widest type determines the pack: 16 bytes of it, fewer bytes of the others.
  constexpr int N = 16 / static_cast<int>(std::max({sizeof(Out), sizeof(In)...}));
  // The number of packs for about four loads in flight.
  constexpr int kUnroll = sizeof...(In) > 1 ? 2 : 4;
  bool aligned = (IsAligned(in, N * sizeof(In)) && ... && true);
  for (Out* o : out) aligned = aligned && IsAligned(o, N * sizeof(Out));
  const int64_t packs = std::max<int64_t>(1, n / (aligned ? N : 1));
  const auto blocks =
      static_cast<unsigned>((packs + kThreads * kUnroll - 1) / (kThreads * kUnroll));
  if (aligned) {
    launch.template operator()<N, kUnroll>(blocks);
  } else {
    launch.template operator()<1, kUnroll>(blocks);
  }
  gpu::CheckLaunch(name);
}

}  // namespace map_internal

// Applies `function` to all n elements: it takes a float for each input and returns a float for the
// one output, or Results for several. `name`: the kernel's name in errors.
template <typename Out, size_t kOuts, typename Function, typename... In>
void Map(cudaStream_t stream, const char* name, int64_t n, const Function& function,
         const std::array<Out*, kOuts>& out, const In*... in) {
  if (n == 0) return;
  const auto launch = [&]<int N, int kUnroll>(unsigned blocks) {
    map_internal::MapKernel<N, kUnroll>
        <<<blocks, map_internal::kThreads, 0, stream>>>(n, function, out, in...);
  };
  map_internal::LaunchInPacks(name, n, launch, out, in...);
}

// Like the function above; also finds the largest magnitude of each output (ops/cuda/largest.cuh).
// An output that is nullptr is not written, but its magnitude is found.
template <typename Out, size_t kOuts, typename Function, typename... In>
void MapWithLargest(cudaStream_t stream, const char* name, int64_t n, const Function& function,
                    const std::array<Out*, kOuts>& out, const map_internal::Largest<kOuts>& largest,
                    const In*... in) {
  for (uint32_t* of : largest) {
    if (of != nullptr) gpu::Check(cudaMemsetAsync(of, 0, sizeof(*of), stream), "cudaMemsetAsync");
  }
  if (n == 0) return;
  const auto launch = [&]<int N, int kUnroll>(unsigned blocks) {
    map_internal::MapKernelWithLargest<N, kUnroll>
        <<<blocks, map_internal::kThreads, 0, stream>>>(n, function, out, largest, in...);
  };
  map_internal::LaunchInPacks(name, n, launch, out, in...);
}

template <typename Out, typename Function, typename... In>
void Map(cudaStream_t stream, const char* name, int64_t n, const Function& function, Out* out,
         const In*... in) {
  Map(stream, name, n, function, std::array<Out*, 1>{out}, in...);
}

// Maps the call's first kInputs inputs, all of one type, to its output 0.
template <int kInputs, typename Function>
void MapElements(const CudaContext& ctx, const Function& function) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    [&]<size_t... kInput>(std::index_sequence<kInput...>) {
      Map(ctx.stream, ctx.op.name.c_str(), ctx.in_shape(0).elements(), function, ctx.out<S>(0),
          ctx.in<S>(kInput)...);
    }
    (std::make_index_sequence<kInputs>());
  });
}

// Registers a kernel that only applies `function`, which has no state.
template <int kInputs, typename Function>
CudaKernelRegistration ElementwiseKernel(const char* op) {
  return CudaKernelRegistration(
      {op, [](const CudaContext& ctx) { MapElements<kInputs>(ctx, Function()); }});
}

}  // namespace plimsoll::ops
