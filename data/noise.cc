#include "data/noise.h"

#include "data/sample_random.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kPurpose = 0x6e6f697365;  // "noise"

}  // namespace

bool IsNoise(const graph::Slot& slot) {
  return slot.name == "noise" && slot.type.dtype == graph::DType::kFloat32 &&
         slot.type.shape.rank() == 2;
}

void FillNoise(const graph::Slot& slot, int64_t first, uint64_t seed) {
  const auto width = static_cast<size_t>(slot.type.shape.dim(1));
  const std::span<float> numbers = slot.values<float>();
  for (size_t row = 0; row * width < numbers.size(); ++row) {
    SampleRandom random(seed, first + static_cast<int64_t>(row), kPurpose);
    for (float& number : numbers.subspan(row * width, width)) {
      number = static_cast<float>(random.Normal());
    }
  }
}

}  // namespace plimsoll::data
