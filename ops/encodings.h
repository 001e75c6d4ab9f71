// Block encodings: how numbers are kept in few bits, as codes, with one scale for each block.
//
//   number = value of its code · scale of its block
//
// A block is a run of numbers in memory order; the last one may not be full. A row of the table is
// all that programs, snapshots and CPU kernels need to know of an encoding; so another encoding is
// another row, with its two functions. If several codes share a byte (two codes of 16 levels in a
// u8), the row says how many, and CodesType takes it into account. Kernels for GPUs have their own
// conversions, which read the same tables of codes (ops/dynamic_codes.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/tensor.h"

namespace plimsoll::ops {

struct Encoding {
  std::string_view name;
  graph::DType codes, scales;
  int64_t block;   // the number of elements that share a scale
  bool is_signed;  // for numbers of either sign; otherwise only for numbers ≥ 0
  // The bound of |decoded − number|, relative to the largest magnitude of the number's block.
  double error;
  // Converts `count` numbers, the first of which begins a block.
  void (*encode)(const float* numbers, int64_t count, void* codes, void* scales);
  void (*decode)(const void* codes, const void* scales, int64_t count, float* numbers);

  // The types of the tensors that hold the codes and scales of numbers of this shape.
  graph::TensorType CodesType(const graph::Shape& shape) const { return {codes, shape}; }
  graph::TensorType ScalesType(const graph::Shape& shape) const {
    const int64_t n = shape.elements();
    return {scales, {n / block + (n % block != 0 ? 1 : 0)}};
  }
};

// Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", section 2.
//
//   scale = max |x| over the block,   code = the one whose value is nearest to x / scale
//
// A block that contains an infinity or a NaN becomes NaN completely. Without a sign, a positive
// number never becomes zero, but at least the smallest positive value: if a second moment became
// zero while the first one is not, the update would be unbounded.
template <bool kSigned>
void EncodeDynamic(const float* numbers, int64_t count, void* codes, void* scales);
template <bool kSigned>
void DecodeDynamic(const void* codes, const void* scales, int64_t count, float* numbers);

// The error of dynamic codes is half the distance between the two largest values.
inline constexpr Encoding kEncodings[] = {
    {"dynamic8", graph::DType::kUInt8, graph::DType::kFloat32, 256, true, 0.0071,
     &EncodeDynamic<true>, &DecodeDynamic<true>},
    {"dynamic8_unsigned", graph::DType::kUInt8, graph::DType::kFloat32, 256, false, 0.0036,
     &EncodeDynamic<false>, &DecodeDynamic<false>},
};
inline constexpr const Encoding& kDynamic8 = kEncodings[0];
inline constexpr const Encoding& kDynamic8Unsigned = kEncodings[1];

}  // namespace plimsoll::ops
