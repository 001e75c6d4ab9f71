// Rotation of query and key heads by position (formula in rotary.h). A block takes one token of
// several sequences: it computes the cosines and sines of their position once, in shared memory,
// for all heads. With the input `positions` the sequences' positions differ, and a block takes one
// token. A thread rotates 16 bytes of a head's first half with those of the second half. Bytes: qkv
// is read and written once. In place, the value heads are not accessed, unless the largest
// magnitude of the result is requested: then they are read, and each block adds its own maximum. If
// heads are rotated in part, the rest of a head is treated like the values.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "gpu/check.h"
#include "ops/attention/rotary_frequencies.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 2;
constexpr int kSequencesAtOnce = 8;
// Pairs of a head that one launch rotates; wider heads take several.
constexpr int kPairsAtOnce = 256;

struct Frequencies {
  float values[kPairsAtOnce];
};

struct Geometry {
  int64_t sequences, length;
  int width;         // width of a row of qkv
  int rotated;       // number of rotated heads
  int pairs;         // pairs of a head that are rotated
  int begin, count;  // the pairs that this launch rotates
  float sign;        // −1: inverse rotation
};

// Heads are rotated completely, without a factor on cosines and sines.
struct WholeRotary {
  static constexpr float scale = 1;
};

// Heads are rotated in part, or cosines and sines have a factor.
struct PartialRotary {
  int head_width;
  float scale;  // the attention factor
};

// The number of elements of `heads` heads.
template <typename T>
__device__ T HeadsWidth(T heads, const Geometry& g, WholeRotary) {
  return heads * 2 * g.pairs;
}
template <typename T>
__device__ T HeadsWidth(T heads, const Geometry& /*g*/, const PartialRotary& partial) {
  return heads * partial.head_width;
}

// The index in qkv at which pack `item` of the block's first halves begins. Sets `pair` to the
// pack's first pair.
template <int N, typename P>
__device__ int64_t FirstHalf(const Geometry& g, uint32_t item, int64_t begin, int64_t t, int& pair,
                             const P& partial) {
  const uint32_t packs = g.count / N;
  const uint32_t head = item / packs;  // counted over all sequences
  const uint32_t sequence = head / g.rotated;
  pair = static_cast<int>(item - head * packs) * N;
  const int64_t row = (begin + sequence) * g.length + t;
  return row * g.width + HeadsWidth(head - sequence * g.rotated, g, partial) + g.begin + pair;
}

// Rounds and writes a pack. With kLargest, raises `largest` to the pack's largest magnitude.
template <bool kLargest, int N, typename S>
__device__ void StoreRotated(S* to, const float (&values)[N], uint32_t& largest) {
  const Pack<S, N> rounded = RoundPack<S, N>(values);
  WriteGlobal(to, rounded);
  if constexpr (kLargest) largest = WithMagnitudes(largest, rounded);
}

// Handles the unrotated rest of query and key heads: copies it, unless the op works in place, and
// reads it for the largest magnitude.
template <int N, bool kLargest, typename S>
__device__ void PassRest(const Geometry& g, const PartialRotary& partial, int64_t begin,
                         int sequences, int64_t t, const S* in, S* out, uint32_t& largest) {
  const int packs = (partial.head_width - 2 * g.pairs) / N;  // per head
  for (int item = threadIdx.x; item < sequences * g.rotated * packs; item += kThreads) {
    const int head = item / packs;
    const int64_t row = (begin + head / g.rotated) * g.length + t;
    const int64_t at =
        row * g.width + head % g.rotated * partial.head_width + 2 * g.pairs + item % packs * N;
    const auto values = *reinterpret_cast<const Pack<S, N>*>(in + at);
    if (in != out) *reinterpret_cast<Pack<S, N>*>(out + at) = values;
    if constexpr (kLargest) largest = WithMagnitudes(largest, values);
  }
}

// kApart: `places` has the position of each token. Otherwise `places` is nullptr, or has the
// position of the first token of each sequence. P: WholeRotary or PartialRotary.
template <int N, bool kLargest, bool kApart, typename S, typename P>
__global__ void __launch_bounds__(kThreads)
    RotaryKernel(const __grid_constant__ Frequencies frequencies, const Geometry g,
                 const int32_t* places, const S* in, S* out, uint32_t* to_largest,
                 const P partial) {
  __shared__ alignas(16) float cosines[kPairsAtOnce], sines[kPairsAtOnce];
  const int64_t t = kApart ? blockIdx.x % g.length : blockIdx.x;
  const int64_t begin = kApart ? blockIdx.x / g.length : int64_t{blockIdx.y} * kSequencesAtOnce;
  const int sequences =
      kApart ? 1 : static_cast<int>(min(g.sequences - begin, int64_t{kSequencesAtOnce}));
  const uint32_t items = sequences * g.rotated * (g.count / N);
  uint32_t largest = 0;

  Pack<S, N> x1[kUnroll], x2[kUnroll];
  const auto load = [&](uint32_t item) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item + u * kThreads >= items) break;
      int pair;
      const int64_t at = FirstHalf<N>(g, item + u * kThreads, begin, t, pair, partial);
      x1[u] = *reinterpret_cast<const Pack<S, N>*>(in + at);
      x2[u] = *reinterpret_cast<const Pack<S, N>*>(in + at + g.pairs);
    }
  };
  const auto rotate = [&](uint32_t item) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item + u * kThreads >= items) break;
      int pair;
      const int64_t at = FirstHalf<N>(g, item + u * kThreads, begin, t, pair, partial);
      float first[N], second[N], y1[N], y2[N];
      ToFloats(x1[u], first);
      ToFloats(x2[u], second);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float cosine = cosines[pair + i], sine = sines[pair + i];
        y1[i] = first[i] * cosine - second[i] * sine;
        y2[i] = second[i] * cosine + first[i] * sine;
      }
      StoreRotated<kLargest>(out + at, y1, largest);
      StoreRotated<kLargest>(out + at + g.pairs, y2, largest);
    }
  };

  // The first loads are in flight while the table is computed.
  load(threadIdx.x);
  const float position =
      static_cast<float>(kApart ? places[blockIdx.x] : (places == nullptr ? 0 : *places) + t);
  for (int i = threadIdx.x; i < g.count; i += kThreads) {
    float sine, cosine;
    sincosf(position * frequencies.values[i], &sine, &cosine);
    cosines[i] = cosine * partial.scale;
    sines[i] = g.sign * sine * partial.scale;
  }
  __syncthreads();
  for (uint32_t item = threadIdx.x; item < items; item += kThreads * kUnroll) {
    if (item != threadIdx.x) load(item);
    rotate(item);
  }

  if ((kLargest || in != out) && g.begin == 0) {
    const int values_at = HeadsWidth(g.rotated, g, partial);
    const int value_packs = (g.width - values_at) / N;
    for (int item = threadIdx.x; item < sequences * value_packs; item += kThreads) {
      const int64_t row = (begin + item / value_packs) * g.length + t;
      const int64_t at = row * g.width + values_at + item % value_packs * N;
      const auto values = *reinterpret_cast<const Pack<S, N>*>(in + at);
      if (in != out) *reinterpret_cast<Pack<S, N>*>(out + at) = values;
      if constexpr (kLargest) largest = WithMagnitudes(largest, values);
    }
    if constexpr (std::is_same_v<P, PartialRotary>) {
      PassRest<N, kLargest>(g, partial, begin, sequences, t, in, out, largest);
    }
  }
  if constexpr (kLargest) {
    __shared__ uint32_t shared[kThreads / kWarp];
    AddLargest<kThreads>(largest, shared, to_largest);
  }
}

template <typename S>
void Run(const CudaContext& ctx) {
  const graph::Shape& shape = ctx.in_shape(0);
  uint32_t* const largest = ctx.out<uint32_t>(1);
  if (largest != nullptr) {
    gpu::Check(cudaMemsetAsync(largest, 0, sizeof(*largest), ctx.stream), "cudaMemsetAsync");
  }
  if (shape.elements() == 0) return;
  const int64_t heads = ctx.attributes.GetInt("heads"),
                kv_heads = ctx.attributes.GetInt("kv_heads");
  const int64_t head = shape.dim(2) / (heads + 2 * kv_heads);
  const int64_t pairs = RotaryWidth(ctx.attributes, head) / 2;
  const PartialRotary partial{.head_width = static_cast<int>(head),
                              .scale = RotaryScale(ctx.attributes)};
  const bool plain = 2 * pairs == head && partial.scale == 1;
  Geometry g{.sequences = shape.dim(0),
             .length = shape.dim(1),
             .width = static_cast<int>(shape.dim(2)),
             .rotated = static_cast<int>(heads + kv_heads),
             .pairs = static_cast<int>(pairs),
             .begin = 0,
             .count = 0,
             .sign = ctx.attributes.GetBool("inverse") ? -1.0f : 1.0f};
  const S* in = ctx.in<S>(0);
  S* out = ctx.out<S>(0);
  constexpr int N = kPackSize<S>;
  const bool aligned = pairs % N == 0 && head % N == 0 && IsAligned(in, 16) && IsAligned(out, 16);
  const bool apart = ctx.has_input(2);
  const int32_t* const places = ctx.in<int32_t>(apart ? 2 : 1);
  const dim3 grid(
      static_cast<unsigned>(apart ? g.length * g.sequences : g.length),
      apart ? 1 : static_cast<unsigned>((g.sequences + kSequencesAtOnce - 1) / kSequencesAtOnce));
  for (int64_t begin = 0; begin < pairs; begin += kPairsAtOnce) {
    g.begin = static_cast<int>(begin);
    g.count = static_cast<int>(std::min<int64_t>(kPairsAtOnce, pairs - begin));
    Frequencies frequencies;
    RotaryFrequencies(ctx.attributes, pairs, begin,
                      {frequencies.values, static_cast<size_t>(g.count)});
    const auto launch = [&](auto* kernel, auto form) {
      kernel<<<grid, kThreads, 0, ctx.stream>>>(frequencies, g, places, in, out, largest, form);
    };
    const auto choose = [&]<bool kLargest, bool kApart>() {
      if (plain) {
        aligned ? launch(&RotaryKernel<N, kLargest, kApart, S, WholeRotary>, WholeRotary())
                : launch(&RotaryKernel<1, kLargest, kApart, S, WholeRotary>, WholeRotary());
      } else {
        aligned ? launch(&RotaryKernel<N, kLargest, kApart, S, PartialRotary>, partial)
                : launch(&RotaryKernel<1, kLargest, kApart, S, PartialRotary>, partial);
      }
    };
    if (largest != nullptr) {
      apart ? choose.template operator()<true, true>() : choose.template operator()<true, false>();
    } else {
      apart ? choose.template operator()<false, true>()
            : choose.template operator()<false, false>();
    }
    gpu::CheckLaunch("rotary");
  }
}

void Rotary(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() { Run<S>(ctx); });
}

const CudaKernelRegistration kRotary({"rotary", &Rotary});

}  // namespace
}  // namespace plimsoll::ops
