#include "runtime/ranks/rank_reduction.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/low_precision.h"

namespace plimsoll::runtime {
namespace {

// Elements per block, so that the sums stay in the L1 cache.
constexpr int64_t kBlock = 1024;

float Load(BFloat16 value) { return ToFloat(value); }
float Load(Float16 value) { return ToFloat(value); }
float Load(float value) { return value; }
double Load(double value) { return value; }
int32_t Load(int32_t value) { return value; }
uint8_t Load(uint8_t value) { return value; }

void Store(float value, BFloat16& to) { to.bits = ToBf16(value); }
void Store(float value, Float16& to) { to.bits = ToF16(value); }
template <typename T>
void Store(T value, T& to) {
  to = value;
}

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(
          static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
    } else {
      return a + b;
    }
  }
};

struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    // A NaN is kept: only a NaN differs from itself.
    return a != a || b > a ? b : a;
  }
};

template <typename T, typename Combine>
void Reduce(const Contributions& from, std::byte* to, int64_t count, Combine combine) {
  using Value = decltype(Load(T{}));
  std::array<Value, kBlock> values;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t here = std::min(kBlock, count - first);
    for (int r = 0; r < from.size; ++r) {
      const T* const part = reinterpret_cast<const T*>(from.of(r)) + first;
      if (r == 0) {
        for (int64_t i = 0; i < here; ++i) values[i] = Load(part[i]);
      } else {
        for (int64_t i = 0; i < here; ++i) values[i] = combine(values[i], Load(part[i]));
      }
    }
    T* const result = reinterpret_cast<T*>(to) + first;
    for (int64_t i = 0; i < here; ++i) Store(values[i], result[i]);
  }
}

template <typename T>
void Reduce(const Contributions& from, std::byte* to, int64_t count, ops::Reduction reduction) {
  switch (reduction) {
    case ops::Reduction::kSum:
      return Reduce<T>(from, to, count, Sum());
    case ops::Reduction::kMax:
      return Reduce<T>(from, to, count, Max());
  }
}

}  // namespace

void ReduceInRankOrder(const Contributions& from, std::byte* to, int64_t count, graph::DType dtype,
                       ops::Reduction reduction) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return Reduce<float>(from, to, count, reduction);
    case graph::DType::kFloat64:
      return Reduce<double>(from, to, count, reduction);
    case graph::DType::kBFloat16:
      return Reduce<BFloat16>(from, to, count, reduction);
    case graph::DType::kFloat16:
      return Reduce<Float16>(from, to, count, reduction);
    case graph::DType::kInt32:
      return Reduce<int32_t>(from, to, count, reduction);
    case graph::DType::kUInt8:
      return Reduce<uint8_t>(from, to, count, reduction);
    case graph::DType::kInt16:
    case graph::DType::kFloat8E4M3:
    case graph::DType::kFloat8E5M2:
      break;
  }
  throw InternalError("no reduction of " + std::string(graph::Name(dtype)));
}

}  // namespace plimsoll::runtime
