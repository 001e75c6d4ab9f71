#include "runtime/cpu/cpu_instruments.h"

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

uint64_t ArenaMeter::Word(int64_t index) const {
  return (static_cast<uint64_t>(index) + run_ * 0x51ED2701u) * 0x9E3779B97F4A7C15u;
}

std::byte ArenaMeter::Byte(int64_t offset) const {
  return static_cast<std::byte>(Word(offset / kWord) >> (8 * (offset % kWord)));
}

void ArenaMeter::Fill(int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i < end && i % kWord != 0; ++i) base_[i] = Byte(i);
  for (; i + kWord <= end; i += kWord) {
    const uint64_t word = Word(i / kWord);
    std::memcpy(base_ + i, &word, kWord);
  }
  for (; i < end; ++i) base_[i] = Byte(i);
}

int64_t ArenaMeter::FirstChanged(int64_t begin, int64_t end) const {
  int64_t i = begin;
  for (; i < end && i % kWord != 0; ++i) {
    if (base_[i] != Byte(i)) return i;
  }
  for (; i + kWord <= end; i += kWord) {
    const uint64_t word = Word(i / kWord);
    if (std::memcmp(base_ + i, &word, kWord) != 0) break;
  }
  while (i < end && base_[i] == Byte(i)) ++i;
  return i;
}

void ArenaMeter::BeforeRun() {
  ++run_;
  for (const Gap& gap : gaps_) Fill(gap.begin, gap.end);
}

ArenaMeter::Offsets ArenaMeter::OffsetsOf(const Range& range) const {
  const int64_t begin = range.begin - base_, end = begin + static_cast<int64_t>(range.bytes);
  return {begin, end, (end + alignment_ - 1) / alignment_ * alignment_};
}

void ArenaMeter::BeforeNode(int node) {
  for (const Range& range : fresh_[node]) {
    const Offsets offsets = OffsetsOf(range);
    if (offsets.rounded > used_bytes_) Fill(offsets.begin, offsets.end);
  }
}

void ArenaMeter::AfterNode(int node) {
  for (const Range& range : fresh_[node]) {
    const Offsets offsets = OffsetsOf(range);
    // The buffer was not filled, as a higher one is already used.
    if (offsets.rounded <= used_bytes_) continue;
    if (FirstChanged(offsets.begin, offsets.end) < offsets.end) used_bytes_ = offsets.rounded;
  }
}

void ArenaMeter::AfterRun() {
  for (const Gap& gap : gaps_) {
    const int64_t changed = FirstChanged(gap.begin, gap.end);
    if (changed == gap.end) continue;
    throw InternalError(
        fmt::format("program '{}' wrote byte {} of the arena, which belongs to none of its tensors",
                    program_.name(), changed));
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

// The index of the first NaN or infinity in a 16-bit type: such numbers have all bits of the
// exponent set.
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
