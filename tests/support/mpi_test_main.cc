#include "tests/support/mpi_test_main.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/test_device.h"

namespace plimsoll {
namespace {

runtime::World* world = nullptr;

// A rank that failed may have left out calls that others wait for: all ranks end, after its
// messages.
class EndAllAtFirstFailure : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    if (world->size() == 1 || !test.result()->Failed()) return;
    std::printf("rank %d of %d (host %s): %s.%s failed; ending all ranks\n", world->rank(),
                world->size(), world->host().c_str(), test.test_suite_name(), test.name());
    world->Abort(1);
  }
};

}  // namespace

runtime::World& TestWorld() { return *world; }

}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::runtime::World world;
  plimsoll::world = &world;
  if (plimsoll::TestsOnGpus()) world.ChooseOwnGpu();
  plimsoll::ActAsNamedGpu();
  // Rank 0 reports passing tests; the others report only failures.
  if (world.rank() != 0) testing::GTEST_FLAG(brief) = true;
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new plimsoll::EndAllAtFirstFailure);
  return RUN_ALL_TESTS();
}
