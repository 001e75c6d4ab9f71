#include "runtime/stored_parameter.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/low_precision.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;

// Number of elements converted at a time, so that they stay in the L1 cache.
constexpr int64_t kChunk = 2048;

void ToFloats(const TypedElements& from, float* to) {
  if (from.dtype == DType::kFloat32) {
    std::memcpy(to, from.data, static_cast<size_t>(from.count) * sizeof(float));
    return;
  }
  uint16_t bits[kChunk];
  std::memcpy(bits, from.data, static_cast<size_t>(from.count) * sizeof(uint16_t));
  if (from.dtype == DType::kBFloat16) {
    for (int64_t i = 0; i < from.count; ++i) to[i] = FromBf16(bits[i]);
  } else {
    for (int64_t i = 0; i < from.count; ++i) to[i] = FromF16(bits[i]);
  }
}

}  // namespace

std::span<float> StoredParameter::InPlace() const {
  if (dtype != DType::kFloat32) return {};
  return {reinterpret_cast<float*>(data), static_cast<size_t>(elements)};
}

StoredParameter StoredParameter::Part(int64_t begin, int64_t end) const {
  return {dtype,
          end - begin,
          data + begin * graph::ByteSize(dtype),
          remainder == nullptr ? nullptr : remainder + begin,
          master == nullptr ? nullptr : master + begin,
          has_remainder};
}

// Stores all elements: their 16-bit parts, and the remainder or master that completes them.
void StoredParameter::SetLow(const float* values) const {
  auto* const low = reinterpret_cast<uint16_t*>(data);
  if (has_remainder && remainder != nullptr) {
    for (int64_t i = 0; i < elements; ++i) {
      const SplitFloat split = Split(values[i]);
      low[i] = split.high.bits;
      remainder[i] = split.low;
    }
  } else if (has_remainder) {
    for (int64_t i = 0; i < elements; ++i) low[i] = Split(values[i]).high.bits;
  } else if (dtype == DType::kBFloat16) {
    for (int64_t i = 0; i < elements; ++i) low[i] = ToBf16(values[i]);
  } else {
    for (int64_t i = 0; i < elements; ++i) low[i] = ToF16(values[i]);
  }
  if (master != nullptr) std::copy_n(values, elements, master);
}

void StoredParameter::Set(const TypedElements& values) const {
  if (values.count != elements) {
    throw InternalError("a parameter is set from another number of elements");
  }
  float chunk[kChunk];
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, elements);
    if (dtype == DType::kFloat32) {
      ToFloats(values.Part(begin, end), reinterpret_cast<float*>(data) + begin);
    } else {
      ToFloats(values.Part(begin, end), chunk);
      Part(begin, end).SetLow(chunk);
    }
  }
}

void StoredParameter::Draw(const InitialDraws& draws, int64_t first) const {
  if (const std::span<float> place = InPlace(); !place.empty()) {
    return plimsoll::Draw(draws, first, place);
  }
  float chunk[kChunk];
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, elements);
    plimsoll::Draw(draws, first + begin, {chunk, static_cast<size_t>(end - begin)});
    Part(begin, end).SetLow(chunk);
  }
}

void StoredParameter::Get(std::span<float> values) const {
  if (static_cast<int64_t>(values.size()) != elements) {
    throw InternalError("a parameter is read into another number of elements");
  }
  const float* const whole =
      dtype == DType::kFloat32 ? reinterpret_cast<const float*>(data) : master;
  if (whole != nullptr) {
    std::copy(whole, whole + elements, values.begin());
    return;
  }
  const auto* const low = reinterpret_cast<const uint16_t*>(data);
  for (size_t i = 0; i < values.size(); ++i) {
    if (remainder != nullptr) {
      values[i] = Join({low[i]}, remainder[i]);
    } else {
      values[i] = dtype == DType::kBFloat16 ? FromBf16(low[i]) : FromF16(low[i]);
    }
  }
}

std::vector<float> ValuesOf(DType dtype, std::span<std::byte> data, std::span<std::byte> remainder,
                            std::span<std::byte> master) {
  std::vector<float> values(data.size() / static_cast<size_t>(graph::ByteSize(dtype)));
  StoredParameter{
      .dtype = dtype,
      .elements = std::ssize(values),
      .data = data.data(),
      .remainder = remainder.empty() ? nullptr : reinterpret_cast<int16_t*>(remainder.data()),
      .master = master.empty() ? nullptr : reinterpret_cast<float*>(master.data()),
      .has_remainder = !remainder.empty()}
      .Get(values);
  return values;
}

void CheckStore(const StoredParameter& to, const Stripe& from, const TypedElements& values) {
  const bool within =
      from.count == 0 || (from.Number(0) >= 0 && from.Number(from.count - 1) < values.count);
  if (to.elements != from.count || !within || !graph::IsFloat(values.dtype)) {
    throw InternalError("elements of a parameter are stored that its values lack");
  }
}

}  // namespace plimsoll::runtime
