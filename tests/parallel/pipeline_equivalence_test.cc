// Stages of a pipeline train as one rank that accumulates as many micro-steps: to the bit, and next
// to data and tensor ranks except for the order in which floats are added. Started under mpirun;
// every rank also trains alone, as the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
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

using Policy = checkpointing::Options::Policy;

models::ModelSpec StagedGpt2() {
  models::ModelSpec spec = models::Gpt2Spec(5, 32, 4, 96, 16);
  spec.tied = false;
  spec.dropout = 0.1;
  return spec;
}
models::ModelSpec StagedLlama() { return models::LlamaSpec({5, 32, 4, 2, 8, 80, 96, 16, false}); }

// The division of five blocks into that number of stages.
std::vector<int64_t> BlocksOfStages(int64_t stages) {
  static const std::map<int64_t, std::vector<int64_t>> blocks = {
      {2, {3, 2}}, {3, {1, 3, 1}}, {4, {1, 1, 2, 1}}, {5, {1, 1, 1, 1, 1}}};
  return blocks.at(stages);
}

class PipelineEquivalence : public testing::Test {
 protected:
  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  }

  // The ranks as stages × data × tensor.
  void Use(TinyRun& run, int64_t data = 1, int64_t tensor = 1) {
    const int64_t stages = TestWorld().size() / (data * tensor);
    mesh_.emplace(Mesh({PipelineAxis(stages), DataAxis(data), TensorAxis(tensor)}));
    mesh_->Use(run);
    run.stages = BlocksOfStages(stages);
  }

  // All ranks call. Returns what one rank gives.
  TinyResult ExpectBitsOfOneRank(TinyRun run) {
    TinyRun alone = run;
    alone.checkpointing = {};
    const TinyResult want = Train(alone);
    Use(run);
    run.executor.poison = run.executor.check_arena = true;
    const TinyResult got = Train(run);
    EXPECT_TRUE(BitsOf(got) == BitsOf(want));
    if (std::isfinite(want.grad_norms.front())) ExpectSameNumbers(got, want);
    ExpectUsesArena(got);
    return want;
  }

 private:
  std::optional<TestMesh> mesh_;
};

TEST_F(PipelineEquivalence, HasTheBitsOfOneRank) {
  const int64_t stages = TestWorld().size();
  for (const models::ModelSpec& spec : {StagedGpt2(), StagedLlama()}) {
    for (const int64_t micro_batches : {int64_t{1}, stages - 1, stages, 2 * stages + 1}) {
      SCOPED_TRACE(fmt::format("{}, {} micro-batches", spec.family, micro_batches));
      ExpectBitsOfOneRank(RunOfStages(spec, micro_batches));
    }
  }
}

// Each stage recomputes as it was told.
TEST_F(PipelineEquivalence, HasThemWithRecomputation) {
  for (const models::ModelSpec& spec : {StagedGpt2(), StagedLlama()}) {
    for (const Policy policy : {Policy::kBlock, Policy::kSelective}) {
      SCOPED_TRACE(fmt::format("{}, {}", spec.family, static_cast<int>(policy)));
      TinyRun run = RunOfStages(spec, 4);
      // Of the policies of two stages, one does nothing.
      run.checkpointing.policy = TestWorld().rank() % 2 == 0 ? policy : Policy::kNone;
      run.checkpointing.recompute.patterns = {"norms", "activations"};
      ExpectBitsOfOneRank(run);
    }
  }
}

// Each send waits for its receiver.
TEST_F(PipelineEquivalence, HasThemWithoutBuffers) {
  ASSERT_EQ(setenv("PLIMSOLL_SYNCHRONOUS_SENDS", "1", 1), 0);
  ExpectBitsOfOneRank(RunOfStages(StagedGpt2(), 6));
  ASSERT_EQ(unsetenv("PLIMSOLL_SYNCHRONOUS_SENDS"), 0);
}

TEST_F(PipelineEquivalence, HasThemIn16Bits) {
  for (const bool scaled : {false, true}) {
    SCOPED_TRACE(scaled ? "fp16 with loss scaling" : "bf16 with stochastic rounding");
    TinyRun run = RunOfStages(StagedGpt2(), 3);
    run.amp.dtype = scaled ? graph::DType::kFloat16 : graph::DType::kBFloat16;
    if (scaled) {
      // So large that the first step overflows, and all stages skip it.
      run.update.loss_scale = ops::LossScaleOptions{.dynamic = true, .backoff_factor = 1e-3};
      run.init_loss_scale = 1e9;
    } else {
      run.update.master_weights = false;
      run.update.state_dtype = optim::StateDType::kBFloat16;
    }
    const TinyResult alone = ExpectBitsOfOneRank(run);
    EXPECT_EQ(std::isfinite(alone.grad_norms.front()), !scaled);
    EXPECT_TRUE(std::isfinite(alone.grad_norms.back()));
  }
}

// The last stage may have nothing to train: it gives the others their gradients all the same.
TEST_F(PipelineEquivalence, HasThemWithFrozenParameters) {
  for (const std::vector<std::string>& frozen : std::vector<std::vector<std::string>>{
           {"embed.*"}, {"*.weight"}, {"block.4.*", "norm.*", "head.*"}}) {
    SCOPED_TRACE(frozen.front());
    TinyRun run = RunOfStages(StagedGpt2(), 3);
    run.frozen = frozen;
    ExpectBitsOfOneRank(run);
  }
}

// Each stage has the adapters of its blocks.
TEST_F(PipelineEquivalence, HasThemWithAdapters) {
  for (const models::ModelSpec& spec : {StagedGpt2(), StagedLlama()}) {
    SCOPED_TRACE(spec.family);
    TinyRun run = RunOfStages(spec, 3);
    run.lora = {"all-linear"};
    run.lora_dropout = 0.2;
    run.amp.dtype = graph::DType::kBFloat16;
    ExpectBitsOfOneRank(run);
  }
}

TEST_F(PipelineEquivalence, TrainsAsOneRankNextToDataRanks) {
  if (TestWorld().size() != 4) GTEST_SKIP() << "a mesh of two by two";
  for (const int64_t zero : {0, 1}) {
    for (const models::ModelSpec& spec : {StagedGpt2(), StagedLlama()}) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", spec.family, zero));
      TinyRun run = RunOfStages(spec, 3);
      TinyRun alone = run;
      alone.accumulate = 6;  // each data rank's micro-batch is one of its own
      alone.evaluate = run.evaluate = false;
      const TinyResult want = Train(alone);
      run.zero = zero;
      run.bucket_bytes = 20'000;  // several buckets
      Use(run, 2);
      run.executor.check_arena = true;
      ExpectTrainsAs(run, want);
    }
  }
}

TEST_F(PipelineEquivalence, TrainsAsOneRankNextToTensorRanks) {
  if (TestWorld().size() != 4) GTEST_SKIP() << "a mesh of two by two";
  for (const bool sequence : {false, true}) {
    for (const models::ModelSpec& spec : {StagedGpt2(), StagedLlama()}) {
      SCOPED_TRACE(fmt::format("{}{}", spec.family, sequence ? ", sequence" : ""));
      TinyRun run = RunOfStages(spec, 3);
      const TinyResult want = Train(run);
      run.sequence_parallel = sequence;
      Use(run, 1, 2);
      run.executor.check_arena = true;
      ExpectTrainsAs(run, want);
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
