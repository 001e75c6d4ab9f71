// The data source "synthetic_texts": made-up texts with labels, for plans, benchmarks and studies
// without files. It fills the inputs "tokens" i32[B,T] with any of the model's tokens,
// "token_types" i32[B,T] with 0, "lengths" i32[B] with T, and "labels" or "label_values"
// (FillLabels). It is endless and has no held-out samples.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/amounts.h"
#include "base/error.h"
#include "base/random.h"
#include "data/labels.h"
#include "data/source.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kTokenStream = 1;

class SyntheticTexts final : public Source {
 public:
  SyntheticTexts(const ModelSizes& model, uint64_t seed) : model_(model), seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    for (const graph::Slot& slot : slots) {
      const bool integers = slot.type.dtype == graph::DType::kInt32;
      if (slot.name == "tokens" && integers) {
        FillTokens(first * model_.sequence, slot.values<int32_t>());
      } else if (slot.name == "token_types" && integers) {
        std::ranges::fill(slot.values<int32_t>(), 0);
      } else if (slot.name == "lengths" && integers) {
        std::ranges::fill(slot.values<int32_t>(), static_cast<int32_t>(model_.sequence));
      } else if (IsLabels(slot)) {
        FillLabels(slot, first, std::max<int64_t>(1, model_.classes), seed_);
      } else {
        throw UserError(fmt::format(
            "made-up texts have nothing for the model's input '{}', {}; they fill tokens and "
            "token_types i32[B,T], lengths i32[B] and labels",
            slot.name, slot.type.ToString()));
      }
    }
  }

  std::string Describe(const Reading& reading) const override {
    return fmt::format("data: made-up texts of {}, {} per step\n",
                       Counted(model_.sequence, "token"), reading.samples_per_step);
  }

 private:
  void FillTokens(int64_t first, std::span<int32_t> tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const uint64_t random = Hash(seed_, kTokenStream, static_cast<uint64_t>(first) + i);
      tokens[i] = static_cast<int32_t>(Below(random, static_cast<uint64_t>(model_.vocab)));
    }
  }

  ModelSizes model_;
  uint64_t seed_;
};

const SourceRegistration kSource({
    .name = "synthetic_texts",
    .settings = {},
    .make = [](const Settings& /*settings*/, const ModelSizes& model, uint64_t seed)
        -> std::unique_ptr<Source> { return std::make_unique<SyntheticTexts>(model, seed); },
    .fills = {"tokens", "token_types", "lengths", {"labels", {1}}, {"label_values", {1, 2}}},
    .made_up = "",
});

}  // namespace
}  // namespace plimsoll::data
