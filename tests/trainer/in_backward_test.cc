// Updates within the backward pass: the same bits as behind it, in less memory, and the planned
// memory is the used one.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

TinyRun RunOf(bool llama, DType dtype) {
  TinyRun run;
  run.spec = llama ? TinyLlama() : TinyGpt2();
  run.spec.layers = 4;
  run.steps = 4;
  run.amp.dtype = dtype;
  run.update.clip_grad_norm = 0;
  run.executor.poison = true;
  run.executor.check_arena = true;
  return run;
}

// Trains behind and within the backward pass; returns how many bytes fewer the second one takes.
int64_t Saved(TinyRun run) {
  const TinyResult behind = Train(run);
  run.update_in_backward = true;
  const TinyResult within = Train(run);
  ExpectSame(within, behind);
  EXPECT_EQ(within.used_bytes, within.arena_bytes);
  return behind.arena_bytes - within.arena_bytes;
}

// Llama or GPT-2, whose head is the embedding; the type.
class InBackward : public testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  static TinyRun Run() { return RunOf(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(InBackward, KeepsTheBitsUnderEveryPolicy) {
  for (const Policy policy : {Policy::kNone, Policy::kBlock, Policy::kEvery}) {
    SCOPED_TRACE(static_cast<int>(policy));
    TinyRun run = Run();
    run.checkpointing.policy = policy;
    run.checkpointing.every = 2;
    run.evaluate = true;
    EXPECT_GE(Saved(run), 0);
  }
}

// With few activations most of the peak is gradients.
TEST_P(InBackward, SavesGradients) {
  TinyRun run = Run();
  run.micro_batch = 1;
  run.sequence = 4;
  const auto model = models::MakeModel(run.spec);
  int64_t elements = 0;
  for (const models::ParameterInfo& parameter : model->parameters()) {
    elements += parameter.shape.elements();
  }
  EXPECT_GT(Saved(run), elements * int64_t{sizeof(float)} / 2);
}

TEST_P(InBackward, KeepsTheBitsOfAllUpdates) {
  TinyRun sgd = Run();
  sgd.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  TinyRun small = Run();
  small.update.state_dtype = optim::StateDType::kInt8;
  small.update.master_weights = false;
  TinyRun averaged = Run();
  averaged.update.average = ops::WeightAverageOptions{.decay = 0.75};
  averaged.evaluate = true;
  TinyRun frozen = Run();
  frozen.frozen = {"block.1.*"};
  TinyRun adapted = Run();
  adapted.lora = {"*"};
  TinyRun ahead = Run();
  ahead.copy_after = 1;
  TinyRun muon = Run(), small_muon = small;
  UseMuon(muon);
  UseMuon(small_muon);
  for (const TinyRun& run : {sgd, small, averaged, frozen, adapted, ahead, muon, small_muon}) {
    EXPECT_GE(Saved(run), 0);
  }
}

// Gradients that programs carry are persistent: nothing is won, and nothing is lost. Within one
// program they are temporaries (tests/trainer/blocks_first_step_test.cc).
TEST_P(InBackward, KeepsTheBitsOfSeveralMicroSteps) {
  TinyRun run = Run();
  run.accumulate = 3;
  EXPECT_EQ(Saved(run), 0);
  run.micro_steps_per_program = 3;
  EXPECT_GE(Saved(run), 0);
}

// Clipping that needs no norm of the whole step.
TEST_P(InBackward, KeepsTheBitsOfOtherClipping) {
  using ClipBy = optim::UpdateOptions::ClipBy;
  std::set<std::vector<double>> losses;
  for (const ClipBy by : {ClipBy::kStep, ClipBy::kParameter, ClipBy::kLastStep}) {
    TinyRun run = Run();
    run.micro_batch = 1;
    run.sequence = 4;
    run.update.clip_grad_norm = 0.05;
    run.update.clip_by = by;
    EXPECT_EQ(Saved(run) > 0, by != ClipBy::kStep);
    losses.insert(Train(run).losses);
  }
  EXPECT_EQ(losses.size(), 3u) << "each is another training";
}

// The norm of all gradients is needed first: nothing moves.
TEST_P(InBackward, LeavesClippingByTheNormAlone) {
  TinyRun run = Run();
  run.update.clip_grad_norm = 0.5;
  EXPECT_EQ(Saved(run), 0);
  run.update.clip_grad_norm = 0;
  run.update.skips = true;
  EXPECT_EQ(Saved(run), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, InBackward,
                         testing::Combine(testing::Bool(),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Llama" : "Gpt2") +
                                  std::string(graph::Name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace plimsoll::trainer
