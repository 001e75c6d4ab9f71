// Reads and writes one element of a tensor of any type as a double.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/float8.h"
#include "base/low_precision.h"
#include "graph/dtype.h"

namespace plimsoll::ops {

template <typename T>
T ReadAs(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * int64_t{sizeof(T)}, sizeof(T));
  return value;
}

template <typename T>
void WriteAs(void* data, int64_t i, T value) {
  std::memcpy(static_cast<char*>(data) + i * int64_t{sizeof(T)}, &value, sizeof(T));
}

inline double ReadElement(graph::DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return ReadAs<float>(data, i);
    case graph::DType::kFloat64:
      return ReadAs<double>(data, i);
    case graph::DType::kInt32:
      return ReadAs<int32_t>(data, i);
    case graph::DType::kBFloat16:
      return FromBf16(ReadAs<uint16_t>(data, i));
    case graph::DType::kFloat16:
      return FromF16(ReadAs<uint16_t>(data, i));
    case graph::DType::kInt16:
      return ReadAs<int16_t>(data, i);
    case graph::DType::kUInt8:
      return ReadAs<uint8_t>(data, i);
    case graph::DType::kFloat8E4M3:
      return ToFloat(ReadAs<Float8E4M3>(data, i));
    case graph::DType::kFloat8E5M2:
      return ToFloat(ReadAs<Float8E5M2>(data, i));
  }
  return 0;
}

// Rounds to the type.
inline void WriteElement(graph::DType dtype, void* data, int64_t i, double value) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return WriteAs(data, i, static_cast<float>(value));
    case graph::DType::kFloat64:
      return WriteAs(data, i, value);
    case graph::DType::kInt32:
      return WriteAs(data, i, static_cast<int32_t>(value));
    case graph::DType::kBFloat16:
      return WriteAs(data, i, ToBf16(static_cast<float>(value)));
    case graph::DType::kFloat16:
      return WriteAs(data, i, ToF16(static_cast<float>(value)));
    case graph::DType::kInt16:
      return WriteAs(data, i, static_cast<int16_t>(value));
    case graph::DType::kUInt8:
      return WriteAs(data, i, static_cast<uint8_t>(value));
    case graph::DType::kFloat8E4M3:
      return WriteAs(data, i, ToE4M3(static_cast<float>(value)));
    case graph::DType::kFloat8E5M2:
      return WriteAs(data, i, ToE5M2(static_cast<float>(value)));
  }
}

}  // namespace plimsoll::ops
