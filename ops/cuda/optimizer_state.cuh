// How optimizer kernels access weights and moments in any storage form (ops/optimizer/optimizer.h):
// a warp takes a tile of kStateBlock = 256 elements, eight in each lane, as float.
//
//   typename M::Raw raw = M::Load(update.m, tile);     // the bytes as stored, in registers
//   LaneValues<float> values = M::Unpack(raw, ...);
//   M::Store(update.m, tile, values, random, ...);     // rounded as the form requires
//
// Lane l has elements 4l … 4l + 3 of the tile's first half and of its second half. So accesses have
// 16 bytes for float32 and 8 bytes for 16-bit types, neighbouring lanes access neighbouring bytes,
// and a lane has the four words of one Philox block. Moments as 8-bit codes:
// ops/cuda/coded_moment.cuh.
#pragma once

#include <cstdint>

#include "ops/cuda/elements.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/stochastic_rounding.cuh"
#include "ops/dynamic_codes.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::ops {

static_assert(kStateBlock == 8 * kWarp);
inline constexpr int kLaneElements = 8;

using MomentCodes = DynamicCodes<uint8_t>;  // codes of a moment's encoding

struct StoredMomentRef {
  const void* in;
  void* out;
  const float* scales_in;
  float* scales_out;  // scales of the new codes; nullptr if not requested
};

struct StoredWeightRef {
  const void* in;
  void* out;
  const void* master_in;  // old master or remainder
  void* master_out;       // new master or remainder; nullptr if not requested
};

// A tile of 256 elements of a tensor of n. kWhole: all 256 exist, and every tensor may be read 16
// bytes at a time.
template <bool kWhole>
struct Tile {
  int64_t first, n;

  // The index of the lane's quad (four elements) number 0 or 1.
  __device__ int64_t quad(int q) const {
    return first + 128 * q + 4 * static_cast<int>(threadIdx.x % kWarp);
  }
};

template <typename T>
struct LaneValues {
  Pack<T, 4> quads[2];
  __device__ T& operator[](int i) { return quads[i / 4].values[i % 4]; }
  __device__ T operator[](int i) const { return quads[i / 4].values[i % 4]; }
};

template <typename T, bool kWhole>
__device__ LaneValues<T> LoadTile(const void* from, const Tile<kWhole>& tile) {
  LaneValues<T> lane;
  const T* const data = static_cast<const T*>(from);
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int64_t at = tile.quad(q);
    if constexpr (kWhole) {
      lane.quads[q] = *reinterpret_cast<const Pack<T, 4>*>(data + at);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) lane.quads[q].values[i] = at + i < tile.n ? data[at + i] : T{};
    }
  }
  return lane;
}

template <typename T, bool kWhole>
__device__ void StoreTile(void* to, const Tile<kWhole>& tile, const LaneValues<T>& lane) {
  T* const data = static_cast<T*>(to);
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int64_t at = tile.quad(q);
    if constexpr (kWhole) {
      WriteGlobal(data + at, lane.quads[q]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (at + i < tile.n) data[at + i] = lane.quads[q].values[i];
      }
    }
  }
}

// For a step that is not applied: copies the bytes if output and input differ.
template <typename T, bool kWhole>
__device__ void CopyTile(const void* from, void* to, const Tile<kWhole>& tile) {
  if (to != nullptr && to != from) StoreTile(to, tile, LoadTile<T>(from, tile));
}

// Words 0 … 7 are the random bits of the lane's elements. As in ops/optimizer/optimizer_state.h,
// element i has words i (for the moments, 16 bits each) and 2^62 + i (for the weight) of the node's
// stream, which has blocks of four words. `first`: the block of element 0.
inline constexpr uint64_t kWeightWords = uint64_t{1} << 60;

template <bool kWhole>
__device__ void DrawWords(uint2 rng, uint64_t key, uint64_t first, const Tile<kWhole>& tile,
                          uint32_t (&words)[kLaneElements]) {
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const uint64_t block = static_cast<uint64_t>(tile.quad(q)) / 4;
    const uint4 drawn = PhiloxBlock(rng, key, first + block);
    words[4 * q] = drawn.x;
    words[4 * q + 1] = drawn.y;
    words[4 * q + 2] = drawn.z;
    words[4 * q + 3] = drawn.w;
  }
}

template <typename T>
__device__ void SetPair(LaneValues<T>& lane, int i, uint32_t pair) {
  static_assert(sizeof(T) == 2);
  memcpy(&lane.quads[i / 4].values[i % 4], &pair, sizeof(pair));
}

__device__ inline LaneValues<float> FromBf16(const LaneValues<__nv_bfloat16>& lane) {
  LaneValues<float> values;
#pragma unroll
  for (int q = 0; q < 2; ++q) ToFloats(lane.quads[q], values.quads[q].values);
  return values;
}

// `shift`: 0 or 16, which selects the half of the random words.
__device__ inline LaneValues<__nv_bfloat16> ToBf16Stochastic(
    const LaneValues<float>& values, const uint32_t (&random)[kLaneElements], int shift) {
  const auto round = [&](int i) {
    return RoundStochastically(values[i], shift == 0 ? random[i] & 0xffff : random[i] >> 16);
  };
  LaneValues<__nv_bfloat16> rounded;
#pragma unroll
  for (int i = 0; i < kLaneElements; i += 2) {
    SetPair(rounded, i, UpperHalves(round(i), round(i + 1)));
  }
  return rounded;
}

// The storage forms of weights.

struct WholeWeight {  // stored as float32
  static constexpr bool kRounds = false;
  using Raw = LaneValues<float>;
  template <bool kWhole>
  static __device__ Raw Load(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    return LoadTile<float>(w.in, tile);
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw) { return raw; }
  template <bool kWhole>
  static __device__ void Store(const StoredWeightRef& w, const Tile<kWhole>& tile,
                               const Raw& values, const uint32_t (&)[kLaneElements]) {
    StoreTile(w.out, tile, values);
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    CopyTile<float>(w.in, w.out, tile);
  }
};

struct SplitWeight {  // stored as bf16 and a remainder of 16 bits
  static constexpr bool kRounds = false;
  struct Raw {
    LaneValues<__nv_bfloat16> high;
    LaneValues<int16_t> low;
  };
  template <bool kWhole>
  static __device__ Raw Load(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    return {LoadTile<__nv_bfloat16>(w.in, tile), LoadTile<int16_t>(w.master_in, tile)};
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw) {
    LaneValues<float> values = FromBf16(raw.high);
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      values[i] = __int_as_float(__float_as_int(values[i]) + raw.low[i]);
    }
    return values;
  }
  template <bool kWhole>
  static __device__ void Store(const StoredWeightRef& w, const Tile<kWhole>& tile,
                               const LaneValues<float>& values, const uint32_t (&)[kLaneElements]) {
    Raw raw;
    const auto bits = [&](int i) {
      const uint32_t plain = __float_as_uint(values[i]);
      return isnan(values[i]) ? (plain & 0x80000000) | 0x7fc00000 : plain;
    };
    // The remainder is the difference to the nearest bf16, modulo 2^16: the lower half unchanged.
#pragma unroll
    for (int i = 0; i < kLaneElements; i += 2) {
      const uint32_t first = bits(i), second = bits(i + 1);
      SetPair(raw.high, i, UpperHalves(first + 0x8000, second + 0x8000));
      SetPair(raw.low, i, LowerHalves(first, second));
    }
    StoreTile(w.out, tile, raw.high);
    if (w.master_out != nullptr) StoreTile(w.master_out, tile, raw.low);
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    CopyTile<uint16_t>(w.in, w.out, tile);
    CopyTile<int16_t>(w.master_in, w.master_out, tile);
  }
};

template <typename S>
struct MasterWeight {  // stored as S and a float32 master; only the master is read
  static constexpr bool kRounds = false;
  using Raw = LaneValues<float>;
  template <bool kWhole>
  static __device__ Raw Load(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    return LoadTile<float>(w.master_in, tile);
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw) { return raw; }
  template <bool kWhole>
  static __device__ void Store(const StoredWeightRef& w, const Tile<kWhole>& tile,
                               const Raw& values, const uint32_t (&)[kLaneElements]) {
    LaneValues<S> rounded;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) rounded[i] = FromFloat<S>(values[i]);
    StoreTile(w.out, tile, rounded);
    if (w.master_out != nullptr) StoreTile(w.master_out, tile, values);
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    CopyTile<S>(w.in, w.out, tile);
    CopyTile<float>(w.master_in, w.master_out, tile);
  }
};

struct RoundedWeight {  // stored as bf16 alone
  static constexpr bool kRounds = true;
  using Raw = LaneValues<__nv_bfloat16>;
  template <bool kWhole>
  static __device__ Raw Load(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    return LoadTile<__nv_bfloat16>(w.in, tile);
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw) { return FromBf16(raw); }
  template <bool kWhole>
  static __device__ void Store(const StoredWeightRef& w, const Tile<kWhole>& tile,
                               const LaneValues<float>& values,
                               const uint32_t (&random)[kLaneElements]) {
    StoreTile(w.out, tile, ToBf16Stochastic(values, random, 0));
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredWeightRef& w, const Tile<kWhole>& tile) {
    CopyTile<uint16_t>(w.in, w.out, tile);
  }
};

// Calls body(weight) with an object of the class that reads such a weight. `master`: the type of
// its master or remainder; any other type if it has neither.
template <typename Body>
void DispatchWeight(graph::DType weight, graph::DType master, Body&& body) {
  if (weight == graph::DType::kFloat32) return body(WholeWeight{});
  if (master == graph::DType::kInt16) return body(SplitWeight{});
  if (master != graph::DType::kFloat32) return body(RoundedWeight{});
  if (weight == graph::DType::kBFloat16) return body(MasterWeight<__nv_bfloat16>{});
  body(MasterWeight<__half>{});
}

// The storage forms of moments. kSecond: the second moment, which uses the upper 16 random bits and
// codes without a sign.

struct NoMoment {
  static constexpr bool kPresent = false, kRounds = false, kCoded = false;
  struct Raw {};
  template <bool kWhole>
  static __device__ Raw Load(const StoredMomentRef&, const Tile<kWhole>&) {
    return {};
  }
  static __device__ LaneValues<float> Unpack(const Raw&, const MomentCodes*) { return {}; }
  template <bool kWhole>
  static __device__ void Store(const StoredMomentRef&, const Tile<kWhole>&,
                               const LaneValues<float>&, const uint32_t (&)[kLaneElements],
                               const MomentCodes*) {}
  template <bool kWhole>
  static __device__ void Copy(const StoredMomentRef&, const Tile<kWhole>&) {}
};

template <bool kSecond>
struct WholeMoment {
  static constexpr bool kPresent = true, kRounds = false, kCoded = false;
  using Raw = LaneValues<float>;
  template <bool kWhole>
  static __device__ Raw Load(const StoredMomentRef& m, const Tile<kWhole>& tile) {
    return LoadTile<float>(m.in, tile);
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw, const MomentCodes*) { return raw; }
  template <bool kWhole>
  static __device__ void Store(const StoredMomentRef& m, const Tile<kWhole>& tile,
                               const Raw& values, const uint32_t (&)[kLaneElements],
                               const MomentCodes*) {
    if (m.out != nullptr) StoreTile(m.out, tile, values);
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredMomentRef& m, const Tile<kWhole>& tile) {
    CopyTile<float>(m.in, m.out, tile);
  }
};

template <bool kSecond>
struct RoundedMoment {  // stored as bf16
  static constexpr bool kPresent = true, kRounds = true, kCoded = false;
  using Raw = LaneValues<__nv_bfloat16>;
  template <bool kWhole>
  static __device__ Raw Load(const StoredMomentRef& m, const Tile<kWhole>& tile) {
    return LoadTile<__nv_bfloat16>(m.in, tile);
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw, const MomentCodes*) {
    return FromBf16(raw);
  }
  template <bool kWhole>
  static __device__ void Store(const StoredMomentRef& m, const Tile<kWhole>& tile,
                               const LaneValues<float>& values,
                               const uint32_t (&random)[kLaneElements], const MomentCodes*) {
    if (m.out == nullptr) return;
    StoreTile(m.out, tile, ToBf16Stochastic(values, random, kSecond ? 16 : 0));
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredMomentRef& m, const Tile<kWhole>& tile) {
    CopyTile<uint16_t>(m.in, m.out, tile);
  }
};

}  // namespace plimsoll::ops
