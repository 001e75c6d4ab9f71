// Metrics that a model declares cover all data ranks together, and are the same on all ranks of a
// tensor group. Started under mpirun; every rank also trains alone, as the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/device.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/telling_model.h"
#include "trainer/step/metrics.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kRows = 2, kSequence = 5, kTargets = 8;  // of a micro-batch
constexpr int64_t kMicroSteps = 8;                         // of a step, on all ranks together

std::vector<double> Numbers(const StepMetrics& metrics) {
  std::vector<double> all;
  for (const MetricSum& metric : metrics.declared) {
    all.insert(all.end(), metric.sum.begin(), metric.sum.end());
    if (metric.count) all.push_back(*metric.count);
  }
  return all;
}

// Metrics of steps, and of an evaluation after each, whose last batch has targets on one rank only.
std::vector<std::vector<double>> Told(TestMesh* mesh, int64_t zero, graph::DType dtype) {
  const auto model = models::WithParameters(std::make_unique<Telling>());
  const MeshPosition position = mesh == nullptr ? MeshPosition() : mesh->ranks().position();
  const int64_t ranks = position.ranks(kDataAxis), rank = position.at(kDataAxis);
  CompileOptions options;
  options.micro_batch = kRows;
  options.sequence = kSequence;
  options.accumulate = kMicroSteps / ranks;
  options.mesh = position.mesh;
  options.rank = position.rank;
  options.zero = zero;
  options.amp.dtype = dtype;
  options.evaluate = true;
  options.threads = 1;
  runtime::ExecutorOptions executor{.check_arena = true};
  runtime::AxisGroups groups;
  if (mesh != nullptr) {
    executor.communicators = mesh->ranks().communicators();
    groups = mesh->ranks().groups();
  }
  ThreadPool pool(1);
  const auto own = mesh == nullptr ? MakeTestDevice(pool) : nullptr;
  runtime::Device& device = mesh == nullptr ? *own : mesh->device();
  options.device = device.kind();
  options.capability = runtime::PresentCapability();
  Session session(Compile(*model, options), device, executor, {}, groups);
  session.Initialize(*model, 1);
  const auto fill = [&](int64_t number, bool ignored = false) {
    const auto [tokens, targets] = TellingBatch(number, kRows * kSequence);
    std::ranges::copy(tokens, session.batch().tokens.begin());
    std::ranges::copy(targets, session.batch().targets.begin());
    if (ignored) std::ranges::fill(session.batch().targets, -100);
  };
  std::vector<std::vector<double>> told;
  for (int64_t step = 0; step < 4; ++step) {
    session.BeginStep(kTargets * kMicroSteps, 1e-2, 1);
    for (int64_t micro = 0; micro < options.accumulate; ++micro) {
      fill((step * options.accumulate + micro) * ranks + rank);
      session.Run(step, micro);
    }
    told.push_back(Numbers(session.Metrics()));
    StepMetrics all;
    for (int64_t batch = 0; batch < options.accumulate; ++batch) {
      const int64_t number = batch * ranks + rank;
      fill(100 + number, number > kMicroSteps - 4);
      all.AddBatch(session.Evaluate(std::vector<int64_t>{kTargets * (kMicroSteps - 3)}, 1)[0]);
    }
    told.push_back(Numbers(all));
  }
  EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
  return told;
}

TEST(MetricsOfRanks, AreThoseOfOne) {
  const int size = TestWorld().size();
  if (size == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
    const auto alone = Told(nullptr, 0, dtype);
    for (int tensor = 1; tensor <= size; tensor *= 2) {
      TestMesh mesh(tensor);
      for (const int64_t zero : {0, 1, 2, 3}) {
        if (zero > 0 && tensor == size) continue;
        SCOPED_TRACE(testing::Message()
                     << tensor << " tensor ranks, ZeRO " << zero << ", " << graph::Name(dtype));
        const auto told = Told(&mesh, zero, dtype);
        ASSERT_EQ(told.size(), alone.size());
        std::string bits;
        for (size_t i = 0; i < told.size(); ++i) {
          ASSERT_EQ(told[i].size(), alone[i].size());
          for (size_t k = 0; k < told[i].size(); ++k) {
            // In 16 bits, sums of differently split parts lead to other weights; counts of rows do
            // not.
            const double tolerance = dtype == graph::DType::kFloat32 ? 1e-4 : 0.5;
            EXPECT_NEAR(told[i][k], alone[i][k], tolerance * (1 + std::abs(alone[i][k])));
          }
          bits.append(reinterpret_cast<const char*>(told[i].data()),
                      told[i].size() * sizeof(double));
        }
        EXPECT_EQ(told[0][1], kTargets * kMicroSteps);
        EXPECT_EQ(told[1][1], kTargets * (kMicroSteps - 3));
        for (const std::string& other : TestWorld().Gather(bits)) {
          EXPECT_TRUE(other == bits) << "ranks differ";
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
