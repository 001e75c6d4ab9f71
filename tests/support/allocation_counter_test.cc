#include "tests/support/allocation_counter.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace plimsoll {
namespace {

TEST(AllocationCounter, CountsBothLanguages) {
  const std::vector<int>* volatile made = nullptr;
  void* volatile taken = nullptr;
  const int64_t count = CountAllocations([&] {
    made = new std::vector<int>(1000);
    taken = std::malloc(100);
  });
  EXPECT_GE(count, 3);
  delete made;
  std::free(taken);
}

TEST(AllocationCounter, NothingIsNone) {
  EXPECT_EQ(CountAllocations([] {}), 0);
}

}  // namespace
}  // namespace plimsoll
