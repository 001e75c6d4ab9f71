// States of a model on several ranks: averaged among data ranks, alike, or each rank's own. Started
// under mpirun.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/axes.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/device.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/remembering_model.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kRows = 4, kSteps = 3;

// What a data rank makes of its states if it is alone.
struct Alone {
  std::vector<double> mean = {0.5, 0.5, 0.5}, own = {0, 0, 0};
};

void ExpectStates(TestMesh& mesh, int64_t zero, int64_t accumulate) {
  const auto model = MakeRemembering();
  const MeshPosition& position = mesh.ranks().position();
  const int64_t ranks = position.ranks(kDataAxis), rank = position.at(kDataAxis);
  CompileOptions options;
  options.micro_batch = kRows;
  options.sequence = 1;
  options.accumulate = accumulate;
  options.mesh = position.mesh;
  options.rank = position.rank;
  options.zero = zero;
  options.threads = 1;
  options.update.skips = true;
  options.device = mesh.device().kind();
  options.capability = runtime::PresentCapability();
  runtime::ExecutorOptions executor{.check_arena = true};
  executor.communicators = mesh.ranks().communicators();
  Session session(Compile(*model, options), mesh.device(), executor, {}, mesh.ranks().groups());
  session.Initialize(*model, 1);

  std::vector<Alone> all(static_cast<size_t>(ranks));
  for (int64_t step = 0; step < kSteps; ++step) {
    session.BeginStep(kRows * accumulate * ranks, 1e-2, 1);
    for (int64_t micro = 0; micro < accumulate; ++micro) {
      const int64_t first = (step * accumulate + micro) * ranks;
      for (int64_t r = 0; r < ranks; ++r) {
        FillPoints(session, first + r);
        const std::vector<double> now = MeanOfPoints(session);
        Alone& alone = all[static_cast<size_t>(r)];
        for (size_t i = 0; i < now.size(); ++i) {
          for (int k = 0; k < 2; ++k) {
            alone.mean[i] += (now[i] - alone.mean[i]) * Remembering::kMomentum / 2;
          }
          alone.own[i] += now[i];
        }
      }
      FillPoints(session, first + rank);
      session.Run(step, micro);
    }
    // The update makes the mean of what the ranks made of it.
    std::vector<double> mean(3, 0.0);
    for (const Alone& alone : all) {
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] += alone.mean[i] / static_cast<double>(ranks);
      }
    }
    for (Alone& alone : all) alone.mean = mean;
    const auto held = session.Read<float>("norm.mean"), own = session.Read<float>("norm.own");
    for (size_t i = 0; i < mean.size(); ++i) {
      EXPECT_NEAR(held[i], mean[i], 1e-5);
      EXPECT_NEAR(own[i], all[static_cast<size_t>(rank)].own[i], 1e-4);
    }
    EXPECT_EQ(session.Read<float>("norm.seen")[0], (step + 1) * accumulate);
    const std::string bits(reinterpret_cast<const char*>(held.data()), held.size() * sizeof(float));
    for (const std::string& other : TestWorld().Gather(bits)) {
      EXPECT_TRUE(other == bits) << "ranks differ";
    }
  }
  EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
}

TEST(ModelStatesOfRanks, AreWhatTheModelSays) {
  const int size = TestWorld().size();
  if (size == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (int tensor = 1; tensor <= size; tensor *= 2) {
    TestMesh mesh(tensor);
    for (const int64_t zero : {0, 1, 2, 3}) {
      if (zero > 0 && tensor == size) continue;
      for (const int64_t accumulate : {1, 3}) {
        SCOPED_TRACE(testing::Message()
                     << tensor << " tensor ranks, ZeRO " << zero << ", " << accumulate);
        ExpectStates(mesh, zero, accumulate);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
