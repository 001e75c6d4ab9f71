// An optimizer's moment as 8-bit codes and a scale for each block (ops/encodings.h), with the same
// interface as the other forms in ops/cuda/optimizer_state.cuh. A tile is a block, so its largest
// magnitude is a maximum over the warp.
#pragma once

#include <cstdint>

#include "ops/cuda/optimizer_state.cuh"
#include "ops/dynamic_codes.h"

namespace plimsoll::ops {

// x / divisor for |x| ≤ divisor and a divisor that is neither tiny nor huge, by a correctly rounded
// reciprocal and a correction by the remainder (Markstein 1990, "Computation of elementary
// functions on the IBM RISC System/6000"). The result equals the rounded division, except for one
// quotient in about 2^23, next to the middle of two floats. A code differs only if such a quotient
// is a border as well.
__device__ inline float Quotient(float x, float divisor, float reciprocal) {
  const float q = __fmul_rn(x, reciprocal);
  return __fmaf_rn(__fmaf_rn(-q, divisor, x), reciprocal, q);
}

// Computes DynamicCodes::Nearest with a GPU's instructions.
template <bool kSigned>
__device__ int32_t FindCode(const MomentCodes& codes, float x) {
  constexpr int32_t kZero = kDynamicZero<kSigned>;
  // Second moments have no sign. fmaxf keeps the index within the table for any bits of x.
  const float magnitude = kSigned ? fabsf(x) : fmaxf(x, 0.0f);
  const int32_t upper = static_cast<int32_t>(__float_as_uint(magnitude) >> 16);
  int32_t index =
      codes.at_bucket[max(upper, MomentCodes::kFirstBucket) - MomentCodes::kFirstBucket];
  if (magnitude >= codes.borders[index]) ++index;
  if constexpr (!kSigned) return index;
  return __float_as_int(x) < 0 ? kZero - min(index, kZero) : kZero + index;
}

template <bool kSecond>
struct CodedMoment {  // 8-bit codes and a scale
  static constexpr bool kPresent = true, kRounds = false, kCoded = true;
  static constexpr Encoding kEncoding = kSecond ? kSecondMomentEncoding : kMomentEncoding;
  static constexpr bool kSigned = kEncoding.is_signed;
  static_assert(kEncoding.codes == graph::DType::kUInt8);
  static_assert(kEncoding.scales == graph::DType::kFloat32);
  struct Raw {
    LaneValues<uint8_t> codes;
    float scale;
  };
  template <bool kWhole>
  static __device__ Raw Load(const StoredMomentRef& m, const Tile<kWhole>& tile) {
    return {LoadTile<uint8_t>(m.in, tile), m.scales_in[tile.first / kStateBlock]};
  }
  static __device__ LaneValues<float> Unpack(const Raw& raw, const MomentCodes* codes) {
    LaneValues<float> values;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      values[i] = codes->values[raw.codes[i]] * raw.scale;
    }
    return values;
  }
  template <bool kWhole>
  static __device__ void Store(const StoredMomentRef& m, const Tile<kWhole>& tile,
                               const LaneValues<float>& values, const uint32_t (&)[kLaneElements],
                               const MomentCodes* codes) {
    // The bits of magnitudes compare like the magnitudes, with infinity and NaNs largest.
    int32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const bool exists = kWhole || tile.quad(i / 4) + i % 4 < tile.n;
      if (exists) bits = max(bits, __float_as_int(values[i]) & (kSigned ? 0x7fffffff : ~0));
    }
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      bits = max(bits, __shfl_xor_sync(~0u, bits, offset));
    }
    const bool finite = bits < 0x7f800000;
    const float largest = __int_as_float(bits);
    // Scales the numbers if intermediate results of the quotient could be subnormal or overflow.
    const float scale = largest < 0x1p-60f ? 0x1p80f : largest > 0x1p100f ? 0x1p-40f : 1.0f;
    LaneValues<float> scaled = values;
    if (scale != 1) {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) scaled[i] *= scale;
    }
    const bool divides = bits != 0 && finite;  // otherwise all codes are zero
    const float divisor = largest * scale, reciprocal = __frcp_rn(divides ? divisor : 1.0f);
    LaneValues<uint8_t> found;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const float x = divides ? Quotient(scaled[i], divisor, reciprocal) : 0.0f;
      found[i] = static_cast<uint8_t>(FindCode<kSigned>(*codes, x));
    }
    if (m.out != nullptr) StoreTile(m.out, tile, found);
    if (m.scales_out != nullptr && threadIdx.x % kWarp == 0) {
      m.scales_out[tile.first / kStateBlock] = finite ? largest : __int_as_float(0x7fc00000);
    }
  }
  template <bool kWhole>
  static __device__ void Copy(const StoredMomentRef& m, const Tile<kWhole>& tile) {
    CopyTile<uint8_t>(m.in, m.out, tile);
    if (m.scales_out != nullptr && m.scales_out != m.scales_in && threadIdx.x % kWarp == 0) {
      m.scales_out[tile.first / kStateBlock] = m.scales_in[tile.first / kStateBlock];
    }
  }
};

}  // namespace plimsoll::ops
