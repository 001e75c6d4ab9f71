// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::graph {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kInt32,
  kBFloat16,  // float32's range, 8 bits of precision
  kFloat16,   // IEEE half: up to 65504, 11 bits of precision
  kInt16,     // the remainder that extends a bf16 weight to float32
  kUInt8,     // codes of 8-bit optimizer state, positions in a window, bit masks
  // Codes of quantized operands (base/float8.h): the value of a code is known only together with
  // the scale of its tensor.
  kFloat8E4M3,
  kFloat8E5M2,
};

// "f32", "f64", "i32", "bf16", "f16", "i16", "u8", "e4m3", "e5m2": the names of the text form.
std::string_view Name(DType dtype);
std::optional<DType> ParseDType(std::string_view name);

// Bytes per element.
int64_t ByteSize(DType dtype);
bool IsFloat(DType dtype);         // false for the 8-bit codes
bool IsFloat8(DType dtype);        // e4m3 or e5m2
bool IsLowPrecision(DType dtype);  // bf16 or f16

// The type in which kernels compute on elements of a floating type, accumulate sums and statistics,
// and return gradients of weights: float32 for the 16-bit types, else the type itself.
DType ComputeType(DType dtype);

}  // namespace plimsoll::graph
