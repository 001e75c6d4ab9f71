// Two objectives on several ranks train as on one. Started under mpirun.
#include <gtest/gtest.h>

#include <cmath>

#include "base/axes.h"
#include "docs/examples/adversarial_training.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::trainer {
namespace {

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 2e-5 + 1e-4 * std::abs(want[i])) << i;
  }
}

TEST(AdversarialRanks, TrainAsOne) {
  if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  runtime::MeshRanks mesh(TestWorld(), Mesh({DataAxis(TestWorld().size())}));
  ThreadPool pool(1);
  mesh.Connect(*runtime::MakeCpuDevice(pool), 0);
  for (const int64_t accumulate : {1, 3}) {
    Setting setting{.accumulate = accumulate, .critic_updates = 2};
    const Left alone = Train(setting, 5);
    setting.check_arena = true;
    setting.mesh = &mesh;
    const Left plain = Train(setting, 5);
    for (size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(plain.losses[i], alone.losses[i], 1e-5);
      EXPECT_NEAR(plain.norms[i], alone.norms[i], 1e-5 * alone.norms[i] + 1e-6);
    }
    // Counts are what they are.
    ExpectNear(plain.declared, alone.declared);
    for (size_t i = 0; i < alone.weights.size(); ++i)
      ExpectNear(plain.weights[i], alone.weights[i]);
    for (const int64_t zero : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "ZeRO " << zero);
      setting.zero = zero;
      const Left divided = Train(setting, 5);
      for (size_t i = 0; i < alone.losses.size(); ++i) {
        EXPECT_NEAR(divided.losses[i], alone.losses[i], 1e-5);
      }
      ExpectNear(divided.declared, alone.declared);
      for (size_t i = 0; i < alone.weights.size(); ++i) {
        ExpectNear(divided.weights[i], alone.weights[i]);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
