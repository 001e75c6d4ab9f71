// Gradients in bf16: half the bytes, the same bits under every policy, on any number of threads and
// micro-steps a program, and a training that follows the one with float32 gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

// Llama or GPT-2, whose head is the embedding; the type.
class GradDtype : public testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  static TinyRun Run() {
    TinyRun run;
    run.spec = std::get<0>(GetParam()) ? TinyLlama() : TinyGpt2();
    run.amp.dtype = std::get<1>(GetParam());
    run.amp.low_gradients = true;
    run.accumulate = 3;
    run.executor.poison = true;
    run.executor.check_arena = true;
    return run;
  }
};

TEST_P(GradDtype, HalvesWhatMicroStepsCarry) {
  const TinyRun low = Run();
  TinyRun whole = low;
  whole.amp.low_gradients = false;
  int64_t matrices = 0;
  const std::unique_ptr<const models::Model> model = models::MakeModel(low.spec);
  for (const models::ParameterInfo& parameter : model->parameters()) {
    if (parameter.shape.rank() > 1) matrices += parameter.shape.elements();
  }
  const auto gradients = [](const TinyRun& run) {
    CompileOptions options;
    options.micro_batch = run.micro_batch;
    options.sequence = run.sequence;
    options.accumulate = run.accumulate;
    options.amp = run.amp;
    return Compile(*models::MakeModel(run.spec), options).plan.bytes_of(graph::Role::kGradient);
  };
  // Beside them stands one float32 gradient at a time.
  EXPECT_GT(gradients(whole) - gradients(low), 2 * matrices - 4 * 96 * 32 - 4096);
  const TinyResult result = Train(low);
  EXPECT_EQ(result.used_bytes, result.arena_bytes);
}

TEST_P(GradDtype, FollowsFloat32) {
  TinyRun run = Run();
  run.steps = 20;
  run.repeat = true;
  const TinyResult low = Train(run);
  run.amp.low_gradients = false;
  const TinyResult whole = Train(run);
  EXPECT_NE(low.losses, whole.losses);
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(low.losses[i], whole.losses[i], 5e-3) << "step " << i;
    EXPECT_NEAR(low.grad_norms[i] / whole.grad_norms[i], 1, 1e-2) << "step " << i;
  }
}

TEST_P(GradDtype, DependsOnNoPolicyThreadsOrPrograms) {
  const TinyRun run = Run();
  const TinyResult expected = Train(run);
  TinyRun block = run, offload = run, serial = run, together = run;
  block.checkpointing.policy = Policy::kBlock;
  offload.checkpointing.offload.patterns = {"*"};
  serial.threads = 1;
  together.micro_steps_per_program = 3;
  TinyRun blocks = together;
  blocks.blocks_first = true;
  for (const TinyRun& other : {block, offload, serial, together, blocks}) {
    ExpectSameNumbers(Train(other), expected);
  }
}

TEST_P(GradDtype, WorksWithOtherUpdates) {
  TinyRun within = Run();
  within.accumulate = 1;
  within.update.clip_grad_norm = 0;
  const TinyResult behind = Train(within);
  within.update_in_backward = true;
  ExpectSameNumbers(Train(within), behind);

  TinyRun small = Run(), sgd = Run(), host = Run();
  small.update.state_dtype = optim::StateDType::kInt8;
  small.update.master_weights = std::get<1>(GetParam()) != DType::kBFloat16;
  sgd.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  host.state_on_host = true;
  for (const TinyRun& run : {small, sgd, host}) {
    const TinyResult result = Train(run);
    EXPECT_TRUE(std::isfinite(result.losses.back()));
    EXPECT_EQ(result.used_bytes, result.arena_bytes);
  }
  ExpectSameNumbers(Train(host), Train(Run()));
}

INSTANTIATE_TEST_SUITE_P(Models, GradDtype,
                         testing::Combine(testing::Bool(),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Llama" : "Gpt2") +
                                  std::string(graph::Name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace plimsoll::trainer
