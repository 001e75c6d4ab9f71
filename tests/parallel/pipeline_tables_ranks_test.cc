// Stages of a pipeline whose first and last one share the table of tokens: they train as one rank
// does, except for the order in which the table's gradient is summed, and their two copies of it
// stay equal to the bit. Started under mpirun; every rank also trains alone, as the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/axes.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

models::ModelSpec TiedGpt2() {
  models::ModelSpec spec = models::Gpt2Spec(4, 32, 4, 96, 16);
  spec.dropout = 0.1;
  return spec;
}
models::ModelSpec TiedLlama() { return models::LlamaSpec({4, 32, 4, 2, 8, 80, 96, 16, true}); }

class PipelineTables : public testing::Test {
 protected:
  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  }

  // The ranks as stages × data × tensor.
  void Use(TinyRun& run, int64_t data = 1, int64_t tensor = 1) {
    static const std::map<int64_t, std::vector<int64_t>> blocks = {
        {2, {3, 1}}, {3, {1, 2, 1}}, {4, {1, 1, 1, 1}}};
    const int64_t stages = TestWorld().size() / (data * tensor);
    mesh_.emplace(Mesh({PipelineAxis(stages, true), DataAxis(data), TensorAxis(tensor)}));
    mesh_->Use(run);
    run.stages = blocks.at(stages);
    run.executor.check_arena = true;
  }

  // Weights are read as the last stage has them, and saved as the first one has them.
  static void ExpectEqualCopies(const models::ModelSpec& spec, const TinyResult& got) {
    const bool saves = TestWorld().rank() == 0;
    const std::string name = "embed.token.weight";
    EXPECT_EQ(got.state.contains(name), saves);
    EXPECT_EQ(got.state.contains(name + ".m"), saves);
    if (!saves) return;
    const auto model = models::MakeModel(spec);
    const auto table = std::ranges::find(model->parameters(), name, &models::ParameterInfo::name);
    const std::vector<float>& last =
        got.weights.at(static_cast<size_t>(table - model->parameters().begin()));
    const std::vector<std::byte>& first = got.state.at(name);
    ASSERT_EQ(first.size(), last.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(first.data(), last.data(), first.size()), 0);
  }

 private:
  std::optional<TestMesh> mesh_;
};

TEST_F(PipelineTables, TrainAsOnOneRank) {
  if (TestWorld().size() > 4) GTEST_SKIP() << "more stages than blocks";
  const int64_t stages = TestWorld().size();
  for (const models::ModelSpec& spec : {TiedGpt2(), TiedLlama()}) {
    for (const int64_t micro_batches : {int64_t{1}, 2 * stages + 1}) {
      SCOPED_TRACE(fmt::format("{}, {} micro-batches", spec.family, micro_batches));
      TinyRun run = RunOfStages(spec, micro_batches);
      const TinyResult want = Train(run);
      Use(run);
      ExpectEqualCopies(spec, ExpectTrainsAs(run, want));
    }
  }
}

TEST_F(PipelineTables, HaveEqualCopiesAfter50Steps) {
  if (TestWorld().size() > 4) GTEST_SKIP() << "more stages than blocks";
  for (const optim::StateDType state : {optim::StateDType::kFloat32, optim::StateDType::kInt8}) {
    TinyRun run = RunOfStages(TiedGpt2(), 3);
    run.spec.vocab = 288;  // so large that 8-bit state is
    run.steps = 50;
    run.update.state_dtype = state;
    Use(run);
    const TinyResult got = Train(run);
    ExpectAlikeOnAllRanks(got);
    ExpectEqualCopies(run.spec, got);
    ExpectUsesArena(got);
  }
}

// Where the sums of the gradient round differently, 16 bits hardly tell.
TEST_F(PipelineTables, TrainIn16Bits) {
  if (TestWorld().size() > 4) GTEST_SKIP() << "more stages than blocks";
  for (const std::string kind : {"rounded weights", "rounded gradients", "scaled"}) {
    SCOPED_TRACE(kind);
    TinyRun run = RunOfStages(TiedGpt2(), 3);
    run.amp.dtype = kind == "scaled" ? graph::DType::kFloat16 : graph::DType::kBFloat16;
    if (kind == "scaled") {
      // So large that the first step overflows, and all stages skip it.
      run.update.loss_scale = ops::LossScaleOptions{.dynamic = true, .backoff_factor = 1e-3};
      run.init_loss_scale = 1e9;
    } else if (kind == "rounded weights") {
      run.update.master_weights = false;
      run.update.state_dtype = optim::StateDType::kBFloat16;
    } else {
      run.amp.low_gradients = true;
    }
    const TinyResult want = Train(run);
    Use(run);
    const TinyResult got = Train(run);
    ExpectAlikeOnAllRanks(got);
    EXPECT_EQ(std::isfinite(got.grad_norms.front()), kind != "scaled");
    ASSERT_EQ(got.grad_norms.size(), want.grad_norms.size());
    for (size_t step = 0; step < want.losses.size(); ++step) {
      EXPECT_NEAR(got.losses[step], want.losses[step], 1e-3 * want.losses[step]);
      if (!std::isfinite(want.grad_norms[step])) continue;
      EXPECT_NEAR(got.grad_norms[step], want.grad_norms[step], 1e-2 * want.grad_norms[step]);
    }
  }
}

TEST_F(PipelineTables, TrainAsOnOneRankNextToDataRanks) {
  if (TestWorld().size() < 4) GTEST_SKIP() << "stages of two ranks";
  for (const int64_t zero : {0, 1}) {
    for (const int64_t bucket_bytes : {0, 20'000}) {
      SCOPED_TRACE(fmt::format("ZeRO {}, buckets of {} bytes", zero, bucket_bytes));
      TinyRun run = RunOfStages(TiedLlama(), 3);
      TinyRun alone = run;
      alone.accumulate = 6;  // each data rank's micro-batch is one of its own
      alone.evaluate = run.evaluate = false;
      const TinyResult want = Train(alone);
      run.zero = zero;
      if (bucket_bytes > 0) run.bucket_bytes = bucket_bytes;
      Use(run, 2);
      ExpectTrainsAs(run, want);
    }
  }
}

TEST_F(PipelineTables, TrainAsOnOneRankNextToTensorRanks) {
  if (TestWorld().size() < 4) GTEST_SKIP() << "stages of two ranks";
  for (const bool sequence : {false, true}) {
    for (const models::ModelSpec& spec : {TiedGpt2(), TiedLlama()}) {
      SCOPED_TRACE(fmt::format("{}{}", spec.family, sequence ? ", sequence" : ""));
      TinyRun run = RunOfStages(spec, 3);
      const TinyResult want = Train(run);
      run.sequence_parallel = sequence;
      Use(run, 1, 2);
      ExpectTrainsAs(run, want);
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
