#include "trainer/step/stored_parameter.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/low_precision.h"

namespace plimsoll::trainer {

using graph::DType;

std::span<float> StoredParameter::InPlace() const {
  if (dtype_ != DType::kFloat32) return {};
  return {static_cast<float*>(data_), static_cast<size_t>(elements_)};
}

StoredParameter StoredParameter::Part(int64_t begin, int64_t end) const {
  return {dtype_, end - begin, static_cast<std::byte*>(data_) + begin * graph::ByteSize(dtype_),
          remainder_ == nullptr ? nullptr : remainder_ + begin,
          master_ == nullptr ? nullptr : master_ + begin};
}

void StoredParameter::Set(std::span<const float> values) const {
  if (static_cast<int64_t>(values.size()) != elements_) {
    throw InternalError("a parameter is set from another number of elements");
  }
  if (dtype_ == DType::kFloat32) {
    std::ranges::copy(values, static_cast<float*>(data_));
    return;
  }
  auto* const low = static_cast<uint16_t*>(data_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (remainder_ != nullptr) {
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      low[i] = static_cast<uint16_t>((bits + 0x8000) >> 16);
      remainder_[i] = static_cast<int16_t>(bits - (uint32_t{low[i]} << 16));
    } else {
      low[i] = dtype_ == DType::kBFloat16 ? ToBf16(values[i]) : ToF16(values[i]);
    }
  }
  if (master_ != nullptr) std::ranges::copy(values, master_);
}

void StoredParameter::Get(std::span<float> values) const {
  if (static_cast<int64_t>(values.size()) != elements_) {
    throw InternalError("a parameter is read into another number of elements");
  }
  const float* const whole = dtype_ == DType::kFloat32 ? static_cast<float*>(data_) : master_;
  if (whole != nullptr) {
    std::copy(whole, whole + elements_, values.begin());
    return;
  }
  const auto* const low = static_cast<const uint16_t*>(data_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (remainder_ != nullptr) {
      const auto rest = static_cast<uint32_t>(int32_t{remainder_[i]});
      values[i] = std::bit_cast<float>((uint32_t{low[i]} << 16) + rest);
    } else {
      values[i] = dtype_ == DType::kBFloat16 ? FromBf16(low[i]) : FromF16(low[i]);
    }
  }
}

}  // namespace plimsoll::trainer
