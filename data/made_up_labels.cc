// Random labels of made-up samples.
#include "base/random.h"
#include "data/labels.h"
#include "data/sample_random.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kClassStream = 3;
constexpr uint64_t kValuePurpose = 0x76616c7565;  // "value"

// Fills [B,C] with a fair coin for each class, and [B] with a normal number.
void FillValues(const graph::Slot& slot, int64_t first, uint64_t seed) {
  const bool number = slot.type.shape.rank() == 1;
  const auto width = static_cast<size_t>(number ? 1 : slot.type.shape.dim(1));
  const std::span<float> values = slot.values<float>();
  for (size_t row = 0; row * width < values.size(); ++row) {
    SampleRandom random(seed, first + static_cast<int64_t>(row), kValuePurpose);
    for (float& value : values.subspan(row * width, width)) {
      const auto normal = static_cast<float>(random.Normal());
      value = number ? normal : static_cast<float>(normal > 0);
    }
  }
}

}  // namespace

bool IsLabels(const graph::Slot& slot) {
  const int rank = slot.type.shape.rank();
  if (slot.name == "labels") return slot.type.dtype == graph::DType::kInt32 && rank == 1;
  return slot.name == "label_values" && slot.type.dtype == graph::DType::kFloat32 &&
         (rank == 1 || rank == 2);
}

void FillLabels(const graph::Slot& slot, int64_t first, int64_t classes, uint64_t seed) {
  if (slot.name == "label_values") return FillValues(slot, first, seed);
  const std::span<int32_t> labels = slot.values<int32_t>();
  for (size_t row = 0; row < labels.size(); ++row) {
    const uint64_t sample = static_cast<uint64_t>(first) + row;
    const uint64_t random = Hash(seed, kClassStream, sample);
    labels[row] = static_cast<int32_t>(Below(random, static_cast<uint64_t>(classes)));
  }
}

}  // namespace plimsoll::data
