// Batch norms on several ranks: groups of samples, synchronised statistics, and each rank by
// itself. Started under mpirun.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/device.h"
#include "tests/models/image_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kSamples = 16;  // a step

CompileOptions Options(int64_t micro_batch, int64_t accumulate) {
  CompileOptions options;
  options.micro_batch = micro_batch;
  options.accumulate = accumulate;
  options.threads = 1;
  // AdamW makes the rounding of gradients near zero as large as a step.
  options.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  return options;
}

ImageRun Alone(const models::Values& settings, int64_t micro_batch, int64_t accumulate, int steps) {
  const auto model = TinyResNet(settings);
  ThreadPool pool(1);
  const auto device = MakeTestDevice(pool);
  CompileOptions options = Options(micro_batch, accumulate);
  options.device = device->kind();
  options.capability = runtime::PresentCapability();
  Session session(Compile(*model, options), *device);
  return RunImages(session, *model, micro_batch * accumulate, steps);
}

// On all ranks, each with its part of kSamples.
ImageRun Together(TestMesh& mesh, const models::Values& settings, CompileOptions options,
                  int steps) {
  const auto model = TinyResNet(settings);
  const MeshPosition& position = mesh.ranks().position();
  const int64_t ranks = position.ranks(kDataAxis), rank = position.at(kDataAxis);
  options.mesh = position.mesh;
  options.rank = position.rank;
  options.device = mesh.device().kind();
  options.capability = runtime::PresentCapability();
  runtime::ExecutorOptions executor{.check_arena = true};
  executor.communicators = mesh.ranks().communicators();
  Session session(Compile(*model, options), mesh.device(), executor, {}, mesh.ranks().groups());
  const ImageRun run = RunImages(session, *model, kSamples, steps, rank, ranks);
  EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
  std::string bits;
  for (const auto& [name, values] : run.weights) {
    bits.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  for (const std::string& other : TestWorld().Gather(bits)) {
    EXPECT_TRUE(other == bits) << "ranks differ";
  }
  return run;
}

void ExpectSameTraining(const ImageRun& got, const ImageRun& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << i;
  }
  for (const auto& [name, values] : want.weights) {
    if (name == "norm_batches") continue;  // counts micro-batches
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest =
          std::max(largest, std::abs(static_cast<double>(values[i]) - got.weights.at(name).at(i)));
    }
    EXPECT_LT(largest, 5e-5) << name;
  }
}

class NormsOfRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  }
  static int64_t size() { return TestWorld().size(); }

  TestMesh mesh_;
};

TEST_F(NormsOfRanks, GroupsOfSamplesAreTheSameOnAnyNumberOfRanks) {
  const models::Values groups = {{"norm_samples", int64_t{2}}};
  const ImageRun alone = Alone(groups, kSamples, 1, 3);
  for (const int64_t accumulate : {1, 2}) {
    for (const int64_t zero : {0, 2}) {
      SCOPED_TRACE(testing::Message() << accumulate << " micro-steps, ZeRO " << zero);
      CompileOptions options = Options(kSamples / size() / accumulate, accumulate);
      options.zero = zero;
      ExpectSameTraining(Together(mesh_, groups, options, 3), alone);
    }
  }
}

TEST_F(NormsOfRanks, SynchronisedOnesSeeTheWholeBatch) {
  for (const int64_t accumulate : {1, 2}) {
    SCOPED_TRACE(accumulate);
    CompileOptions options = Options(kSamples / size() / accumulate, accumulate);
    options.sync_norm = true;
    const ImageRun together = Together(mesh_, {}, options, 3);
    ExpectSameTraining(together, Alone({}, kSamples / accumulate, accumulate, 3));
    // The same bits, whatever is kept for the backward pass.
    options.checkpointing.policy = checkpointing::Options::Policy::kBlock;
    EXPECT_EQ(Together(mesh_, {}, options, 3).weights, together.weights);
  }
}

// As PyTorch's DistributedDataParallel hands out the first rank's buffers.
TEST_F(NormsOfRanks, OthersKeepTheFirstRanksRunningStatistics) {
  const int64_t micro_batch = kSamples / size();
  const ImageRun together = Together(mesh_, {}, Options(micro_batch, 1), 1);
  const ImageRun first = Alone({}, micro_batch, 1, 1);  // the first rank's samples
  const auto is_statistic = [](const std::string& name) {
    return name.find(".running_") != name.npos;
  };
  int compared = 0;
  for (const auto& [name, values] : first.weights) {
    if (!is_statistic(name)) continue;
    EXPECT_EQ(together.weights.at(name), values) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 18);
  EXPECT_NE(together.weights.at("head.weight"), first.weights.at("head.weight"));
}

}  // namespace
}  // namespace plimsoll::trainer
