#include "parallel/rng_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/axes.h"

namespace plimsoll::parallel {
namespace {

int64_t NumberOf(std::string_view name, const MeshPosition& rank, int64_t micro_step) {
  for (const RngSlot& slot : RngSlots()) {
    if (slot.name != name) continue;
    const DrawNumbers numbers = DrawNumbersOf(slot, rank);
    return micro_step * numbers.scale + numbers.offset;
  }
  ADD_FAILURE() << "no slot " << name;
  return 0;
}

// Dropout and rounding follow from these numbers: other numbers would give another training.
TEST(RngSlots, CountMicroStepsAmongTheRanksThatDrawDifferently) {
  const Mesh mesh({DataAxis(3), TensorAxis(2)});
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    const int64_t data = rank / 2;
    const MeshPosition here = {mesh, rank};
    EXPECT_EQ(NumberOf("update_rng", here, 7), 7);
    EXPECT_EQ(NumberOf("rng", here, 7), 7 * 3 + data);
  }
  EXPECT_EQ(NumberOf("rng", {}, 7), 7);
}

// Along an axis that a slot does not name, ranks draw the same numbers.
TEST(RngSlots, RanksDrawAlikeAlongOtherAxes) {
  const Mesh mesh({DataAxis(2), {.name = "context", .ranks = 2}, TensorAxis(2)});
  std::map<std::string, std::set<int64_t>> numbers;
  for (int64_t step = 0; step < 3; ++step) {
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      for (const RngSlot& slot : RngSlots()) {
        numbers[std::string(slot.name)].insert(NumberOf(slot.name, {mesh, rank}, step));
      }
    }
  }
  EXPECT_EQ(numbers.at("update_rng").size(), 3u);
  EXPECT_EQ(numbers.at("rng").size(), 6u);
}

TEST(RngSlots, KnowWhereRanksDrawDifferently) {
  const Mesh data({DataAxis(2), TensorAxis(1)}), tensor({DataAxis(1), TensorAxis(2)});
  EXPECT_TRUE(DrawDifferently("rng", data));
  EXPECT_FALSE(DrawDifferently("rng", tensor));
  EXPECT_FALSE(DrawDifferently("update_rng", data));
  EXPECT_FALSE(DrawDifferently("tokens", data));
}

}  // namespace
}  // namespace plimsoll::parallel
