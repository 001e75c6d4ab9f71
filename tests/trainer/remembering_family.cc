// The family "remembering" and data for it, "numbered_points", for run files.
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "data/source.h"
#include "models/family.h"
#include "tests/trainer/remembering_model.h"

namespace plimsoll::trainer {
namespace {

const models::FamilyRegistration kFamily({
    .name = "remembering",
    .settings = {{.name = "own_begins_anew",
                  .type = Setting::Type::kBool,
                  .doc = "On another number of ranks the state norm.own does.",
                  .default_value = false}},
    .make =
        [](const Settings& settings) {
          return std::make_unique<Remembering>(settings.Bool("own_begins_anew")
                                                   ? models::StateInfo::kInitial
                                                   : models::StateInfo::kMeanOfAll);
        },
});

class NumberedPoints final : public data::Source {
 public:
  explicit NumberedPoints(uint64_t seed) : seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    for (const graph::Slot& slot : slots) {
      if (slot.name == "label") {
        for (int32_t& label : slot.values<int32_t>()) label = 1;
        continue;
      }
      const std::span<float> x = slot.values<float>();
      for (size_t i = 0; i < x.size(); ++i) {
        const uint64_t element = static_cast<uint64_t>(first) * Remembering::kWidth + i;
        x[i] = static_cast<float>(Hash(seed_, element) >> 40) * 0x1p-24f;
      }
    }
  }

 private:
  uint64_t seed_;
};

const data::SourceRegistration kSource({
    .name = "numbered_points",
    .settings = {},
    .make = [](const Settings&, const data::ModelSizes&,
               uint64_t seed) { return std::make_unique<NumberedPoints>(seed); },
});

}  // namespace
}  // namespace plimsoll::trainer
