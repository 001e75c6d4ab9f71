// A source of data that is no file: points of the plane around (x, y), and noise to make others of.
// Called "plane_points" in run files.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "data/source.h"

namespace plimsoll::data {
namespace {

class PlanePoints final : public Source {
 public:
  PlanePoints(const Settings& settings, uint64_t seed)
      : x_(settings.Float("x")),
        y_(settings.Float("y")),
        spread_(settings.Float("spread")),
        held_out_(settings.Int("held_out")),
        seed_(seed) {}

  // Points of another seed, which training does not see.
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    if (held_out_ == 0) return nullptr;
    auto points = std::make_unique<PlanePoints>(*this);
    points->seed_ = ~seed_;
    points->samples_ = most > 0 ? std::min(most, held_out_) : held_out_;
    return points;
  }
  std::optional<int64_t> samples() const override { return samples_; }

  // A row depends on the seed and its sample's number alone.
  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    for (const graph::Slot& slot : slots) {
      const int64_t rows = slot.type.shape.dim(0), width = slot.type.shape.elements() / rows;
      for (int64_t i = 0; i < slot.type.shape.elements(); ++i) {
        const int64_t row = first + i / width, column = i % width;
        if (slot.name == "real") {
          const double center = column == 0 ? x_ : y_;
          slot.values<float>()[i] = static_cast<float>(center + spread_ * Normal(row, column));
        } else if (slot.name == "noise") {
          slot.values<float>()[i] = static_cast<float>(Normal(row, kNoise + column));
        } else if (slot.name == "real_label" || slot.name == "fake_label") {
          slot.values<int32_t>()[i] = slot.name == "real_label" ? 1 : 0;
        } else {
          throw UserError("plane_points has nothing for the model's input '" + slot.name + "'");
        }
      }
    }
  }

 private:
  static constexpr int64_t kNoise = 1000;  // beyond the columns of a point

  // Box and Muller 1958.
  double Normal(int64_t row, int64_t column) const {
    const uint64_t bits = Hash(seed_, static_cast<uint64_t>(row), static_cast<uint64_t>(column));
    const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
    const double v = static_cast<double>(bits & 0xffffffffu) * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

  double x_, y_, spread_;
  int64_t held_out_;
  std::optional<int64_t> samples_;  // of held-out points
  uint64_t seed_;
};

Setting Coordinate(const char* name) {
  return {.name = name,
          .type = Setting::Type::kFloat,
          .doc = "Where points lie around.",
          .default_value = 0.0};
}

const SourceRegistration kSource({
    .name = "plane_points",
    .settings = {Coordinate("x"),
                 Coordinate("y"),
                 {.name = "spread",
                  .type = Setting::Type::kFloat,
                  .doc = "Their standard deviation.",
                  .default_value = 0.3,
                  .min = 0},
                 {.name = "held_out",
                  .doc = "Points that evaluations see and training does not.",
                  .default_value = int64_t{0},
                  .min = 0}},
    .make = [](const Settings& settings, const ModelSizes& /*model*/,
               uint64_t seed) { return std::make_unique<PlanePoints>(settings, seed); },
    .holds_out = [](const Settings& settings) { return settings.Int("held_out") > 0; },
});

}  // namespace
}  // namespace plimsoll::data
