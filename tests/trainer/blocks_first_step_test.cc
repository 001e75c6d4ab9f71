// Micro-steps that go block by block: the same bits as one after another, in the memory that was
// planned, and with updates within the backward pass in less.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

TinyRun BlocksFirst(TinyRun run) {
  run.micro_steps_per_program = run.accumulate;
  run.blocks_first = true;
  return run;
}

// Trains one micro-step after another, then block by block; returns how many bytes fewer the second
// one takes.
int64_t Saved(const TinyRun& run) {
  const TinyResult one_by_one = Train(run), by_block = Train(BlocksFirst(run));
  ExpectSame(by_block, one_by_one);
  EXPECT_EQ(by_block.used_bytes, by_block.arena_bytes);
  return one_by_one.arena_bytes - by_block.arena_bytes;
}

enum class Family { kGpt2, kUntiedGpt2, kLlama, kQwen2 };

models::ModelSpec SpecOf(Family family) {
  if (family == Family::kLlama) return TinyLlama();
  if (family == Family::kQwen2) return models::Qwen2Spec({2, 32, 2, 1, 16, 80, 96, 16, false});
  models::ModelSpec spec = TinyGpt2();
  spec.dropout = 0.2;
  spec.tied = family == Family::kGpt2;
  return spec;
}

class BlocksFirstStep : public testing::TestWithParam<std::tuple<Family, DType>> {
 protected:
  static TinyRun Run() {
    TinyRun run;
    run.spec = SpecOf(std::get<0>(GetParam()));
    run.spec.layers = 3;
    run.micro_batch = 2;
    run.sequence = 8;
    run.accumulate = 3;
    run.steps = 3;
    run.ignored = 0.3;
    run.amp.dtype = std::get<1>(GetParam());
    run.executor.poison = true;
    run.executor.check_arena = true;
    return run;
  }
  static bool Tied() { return std::get<0>(GetParam()) == Family::kGpt2; }
};

TEST_P(BlocksFirstStep, KeepsTheBitsUnderEveryPolicy) {
  for (const Policy policy : {Policy::kNone, Policy::kBlock, Policy::kEvery}) {
    for (const bool offload : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(policy)) + (offload ? " offload" : ""));
      TinyRun run = Run();
      run.checkpointing.policy = policy;
      run.checkpointing.every = 2;
      if (offload) run.checkpointing.offload.patterns = {"*"};
      run.evaluate = true;
      Saved(run);
    }
  }
}

TEST_P(BlocksFirstStep, KeepsTheBitsOfUpdatesWithinTheBackwardPass) {
  using ClipBy = optim::UpdateOptions::ClipBy;
  for (const ClipBy by : {ClipBy::kStep, ClipBy::kParameter, ClipBy::kLastStep}) {
    TinyRun run = Run();
    run.update_in_backward = true;
    run.checkpointing.policy = Policy::kBlock;
    run.update.clip_grad_norm = by == ClipBy::kStep ? 0 : 0.05;
    run.update.clip_by = by;
    Saved(run);
  }
}

// Gradients never all stand: with few activations the arena is smaller by many of them. Those of
// tied weights are one sum of all micro-steps, whose order forbids this one.
TEST_P(BlocksFirstStep, SavesGradients) {
  TinyRun run = Run();
  run.micro_batch = 1;
  run.sequence = 4;
  run.update_in_backward = true;
  run.update.clip_grad_norm = 0;
  const auto model = models::MakeModel(run.spec);
  int64_t elements = 0;
  for (const models::ParameterInfo& parameter : model->parameters()) {
    elements += parameter.shape.elements();
  }
  const int64_t saved = Saved(run);
  if (Tied()) return;
  EXPECT_GT(saved, elements * int64_t{sizeof(float)} / 3);
}

TEST_P(BlocksFirstStep, KeepsTheBitsOfOtherTechniques) {
  TinyRun clipped = Run();
  clipped.update.clip_grad_norm = 0.05;
  TinyRun rounded = Run();
  rounded.update.state_dtype = optim::StateDType::kBFloat16;
  rounded.update.master_weights = false;
  TinyRun scaled = Run();
  scaled.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
  TinyRun averaged = Run();
  averaged.update.average = ops::WeightAverageOptions{.decay = 0.75};
  averaged.evaluate = true;
  TinyRun adapted = Run();
  adapted.lora = {"*"};
  adapted.lora_dropout = 0.2;
  adapted.update_in_backward = true;
  adapted.update.clip_grad_norm = 0;
  TinyRun on_host = Run();
  on_host.state_on_host = true;
  TinyRun ahead = Run();
  ahead.copy_after = 1;
  for (const TinyRun& run : {clipped, rounded, scaled, averaged, adapted, on_host, ahead}) {
    Saved(run);
  }
}

TEST_P(BlocksFirstStep, SaysWhetherItCould) {
  const auto model = models::MakeModel(Run().spec);
  CompileOptions options;
  options.accumulate = options.micro_steps_per_program = 3;
  options.sequence = 8;
  options.blocks_first = true;
  for (const int64_t ranks : {1, 2}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      for (const bool low : {false, true}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, ZeRO " << zero << ", " << low);
        options.mesh = Mesh({DataAxis(ranks)});
        options.zero = zero;
        options.data_parallel.bucket_bytes = 20'000;
        options.amp.dtype = low ? graph::DType::kBFloat16 : graph::DType::kFloat32;
        options.amp.low_gradients = low;
        const CompiledStep compiled = Compile(*model, options);
        const auto report =
            std::ranges::find(compiled.passes, "blocks_first", &graph::PassReport::pass);
        ASSERT_NE(report, compiled.passes.end());
        // Divided, the gradient of each micro-step is a sum of its own.
        const bool divided = ranks > 1 && zero >= 2;
        EXPECT_EQ(report->result.changed, !Tied() || divided) << report->result.summary;
      }
    }
  }
}

TEST(RefusalWarning, SaysWhatForbidsIt) {
  const auto warning = [](const std::string& tied) {
    const config::RunConfig config =
        LoadRunText(
            "model: {family: llama, layers: 2, width: 16, heads: 2, kv_heads: 1, ffn_width: 24, "
            "vocab: 32, sequence: 8, tied: " +
                tied +
                "}\ndata: {synthetic: true}\ntrain: {micro_batch: 1, accumulate: 2, "
                "blocks_first: true}\n",
            "run.yaml")
            .config;
    const auto model = ModelFrom(config);
    return RefusalWarning(config, Compile(*model, CompileFrom(config, *model)));
  };
  EXPECT_EQ(warning("false"), "");
  EXPECT_EQ(warning("true"),
            "run.yaml:3: train.blocks_first: has no effect: each micro-step changes "
            "'embed.token.weight.grad' in several places, as where weights are tied; in another "
            "order it would have other bits");
}

std::string NameOf(const testing::TestParamInfo<std::tuple<Family, DType>>& info) {
  const char* const names[] = {"Gpt2", "UntiedGpt2", "Llama", "Qwen2"};
  return std::string(names[static_cast<int>(std::get<0>(info.param))]) +
         std::string(graph::Name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Models, BlocksFirstStep,
                         testing::Combine(testing::Values(Family::kGpt2, Family::kUntiedGpt2,
                                                          Family::kLlama, Family::kQwen2),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         &NameOf);

}  // namespace
}  // namespace plimsoll::trainer
