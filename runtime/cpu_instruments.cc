#include "runtime/cpu_instruments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "runtime/finite_error.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Program;
using graph::Tensor;
using graph::TensorId;
using Range = RangesByNode::Range;

}  // namespace

void Poison::Fill(std::span<const Range> ranges) {
  for (const Range& range : ranges) std::memset(range.begin, 0xFF, range.bytes);
}

ArenaMeter::ArenaMeter(const Program& program, const Layout& layout, ArenaBases bases)
    : program_(program),
      base_(bases.device),
      alignment_(layout.alignment),
      fresh_(FreshRanges(program, layout, bases, /*device_only=*/true)),
      gaps_(UncoveredGaps(program, layout)),
      used_bytes_(layout.persistent_bytes) {}

std::byte ArenaMeter::Pattern(int64_t offset) const {
  const uint64_t mixed = (static_cast<uint64_t>(offset) + run_ * 0x51ED2701u) * 0x9E3779B97F4A7C15u;
  return static_cast<std::byte>(mixed >> 56);
}

void ArenaMeter::Fill(int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) base_[i] = Pattern(i);
}

void ArenaMeter::BeforeRun() {
  ++run_;
  for (const Gap& gap : gaps_) Fill(gap.begin, gap.end);
}

void ArenaMeter::BeforeNode(int node) {
  for (const Range& range : fresh_[node]) {
    const int64_t begin = range.begin - base_;
    Fill(begin, begin + static_cast<int64_t>(range.bytes));
  }
}

void ArenaMeter::AfterNode(int node) {
  for (const Range& range : fresh_[node]) {
    const int64_t begin = range.begin - base_;
    const int64_t end = begin + static_cast<int64_t>(range.bytes);
    const int64_t rounded = (end + alignment_ - 1) / alignment_ * alignment_;
    if (rounded <= used_bytes_) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (base_[i] != Pattern(i)) {
        used_bytes_ = rounded;
        break;
      }
    }
  }
}

void ArenaMeter::AfterRun() {
  for (const Gap& gap : gaps_) {
    for (int64_t i = gap.begin; i < gap.end; ++i) {
      if (base_[i] == Pattern(i)) continue;
      throw InternalError(fmt::format(
          "program '{}' wrote byte {} of the arena, which belongs to none of its tensors",
          program_.name(), i));
    }
  }
}

namespace {

template <typename T>
int64_t FirstNotFinite(const std::byte* data, int64_t count) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return i;
  }
  return -1;
}

// In the 16-bit types, NaN and infinity have all bits of the exponent set.
int64_t FirstWithExponent(const std::byte* data, int64_t count, uint16_t exponent) {
  const auto* values = reinterpret_cast<const uint16_t*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if ((values[i] & exponent) == exponent) return i;
  }
  return -1;
}

}  // namespace

void CheckFinite(const Program& program, int index, const Layout& layout, ArenaBases bases) {
  for (TensorId id : program.nodes()[index].outputs) {
    if (id == kNoTensor) continue;
    const Tensor& tensor = program.tensor(id);
    const std::byte* data = bases.of(tensor.place) + layout.offset(id);
    const int64_t count = tensor.type.shape.elements();
    int64_t bad = -1;
    if (tensor.type.dtype == DType::kFloat32) bad = FirstNotFinite<float>(data, count);
    if (tensor.type.dtype == DType::kFloat64) bad = FirstNotFinite<double>(data, count);
    if (tensor.type.dtype == DType::kBFloat16) bad = FirstWithExponent(data, count, 0x7F80);
    if (tensor.type.dtype == DType::kFloat16) bad = FirstWithExponent(data, count, 0x7C00);
    if (bad >= 0) ThrowNotFinite(program, index, id, bad);
  }
}

}  // namespace plimsoll::runtime
