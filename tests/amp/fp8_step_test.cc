// Whole training steps with 8-bit linear layers: near the 16-bit step, with the same bits however
// memory is arranged, and nothing hidden where numbers overflow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

struct Case {
  std::string name;
  bool llama;
  DType dtype;
  int64_t window = 0;
  bool pre_activations = false;
};

class Fp8Step : public testing::TestWithParam<Case> {
 protected:
  TinyRun Run() const {
    TinyRun run = In16Bits();
    run.amp.fp8.enabled = true;
    run.amp.fp8.window = GetParam().window;
    run.amp.fp8.pre_activations = GetParam().pre_activations;
    return run;
  }
  TinyRun In16Bits() const {
    TinyRun run;
    run.spec = GetParam().llama ? TinyLlama() : TinyGpt2();
    run.amp.dtype = GetParam().dtype;
    run.evaluate = true;
    run.repeat = true;
    run.steps = 10;
    run.lr = 3e-3;
    run.sequence = 13;  // rows that are no multiple of 16
    run.micro_batch = 3;
    if (run.amp.dtype == DType::kFloat16) run.update.loss_scale.emplace();
    return run;
  }
};

TEST_P(Fp8Step, LossesStayNearThoseOf16Bits) {
  const TinyResult low = Train(In16Bits());
  EXPECT_LT(low.losses.back(), low.losses.front() - 0.3) << "nothing was learnt";
  for (const DType gradients : {DType::kFloat8E5M2, DType::kFloat8E4M3}) {
    TinyRun run = Run();
    run.amp.fp8.gradients = gradients;
    const TinyResult codes = Train(run);
    ASSERT_EQ(codes.losses.size(), low.losses.size());
    for (size_t i = 0; i < low.losses.size(); ++i) {
      EXPECT_NEAR(codes.losses[i], low.losses[i], 0.03) << i;
    }
    EXPECT_NE(codes.losses, low.losses) << "nothing was rounded";
    // Evaluation computes with the weights of 16 bits.
    EXPECT_EQ(codes.evaluations.empty(), low.evaluations.empty());
  }
}

TEST_P(Fp8Step, SkippedLayersAreThoseOf16Bits) {
  TinyRun run = Run();
  run.amp.fp8.skip = {"*"};
  ExpectSameNumbers(Train(run), Train(In16Bits()));
}

TEST_P(Fp8Step, GivesTheSameBitsUnderEveryPolicy) {
  TinyRun run = Run();
  run.spec.layers = 3;
  run.spec.dropout = GetParam().llama ? 0 : 0.1;
  const TinyResult expected = Train(run);
  for (const Policy policy : {Policy::kBlock, Policy::kEvery, Policy::kSelective}) {
    TinyRun with = run;
    with.checkpointing.policy = policy;
    with.checkpointing.every = 2;
    with.checkpointing.recompute.patterns = {"norms", "activations"};
    SCOPED_TRACE(static_cast<int>(policy));
    const TinyResult result = Train(with);
    ExpectSameNumbers(result, expected);
    EXPECT_LE(result.arena_bytes, expected.arena_bytes);
  }
  // Codes go by the op and the name of what they are made of.
  for (const char* const pattern : {GetParam().llama ? "swiglu" : "gelu", "*.mlp.*"}) {
    TinyRun with = run;
    with.checkpointing.policy = Policy::kSelective;
    with.checkpointing.recompute.patterns = {pattern};
    const TinyResult result = Train(with);
    ExpectSameNumbers(result, expected);
    EXPECT_LE(result.arena_bytes, expected.arena_bytes) << pattern;
  }
  TinyRun with = run;
  with.checkpointing.offload.patterns = {"*"};
  ExpectSameNumbers(Train(with), expected);
}

// Codes of one byte wait for the backward pass, and nothing else waits for a linear layer's
// gradients.
TEST_P(Fp8Step, KeepsLessThanIn16Bits) {
  TinyRun codes = Run(), low = In16Bits();
  codes.sequence = low.sequence = 16;
  codes.micro_batch = low.micro_batch = 16;
  codes.spec.layers = low.spec.layers = 4;
  EXPECT_LT(Train(codes).arena_bytes, Train(low).arena_bytes);
}

TEST_P(Fp8Step, GivesTheSameBitsOnAnyNumberOfThreads) {
  TinyRun run = Run();
  const TinyResult expected = Train(run);
  for (const int threads : {1, 3}) {
    run.threads = threads;
    ExpectSame(Train(run), expected);
  }
}

TEST_P(Fp8Step, WeightsAndStateMayBeOnTheHost) {
  TinyRun run = Run();
  const TinyResult expected = Train(run);
  run.state_on_host = run.weights_on_host = run.gradients_on_host = true;
  ExpectSameNumbers(Train(run), expected);
  run.update_in_backward = true;
  run.state_on_host = run.weights_on_host = run.gradients_on_host = false;
  const TinyResult in_backward = Train(run);
  EXPECT_EQ(in_backward.losses.front(), expected.losses.front());
}

TEST_P(Fp8Step, MicroStepsGiveTheBitsOfBlocksFirst) {
  TinyRun run = Run();
  run.accumulate = 3;
  const TinyResult expected = Train(run);
  run.micro_steps_per_program = 3;
  run.blocks_first = true;
  ExpectSameNumbers(Train(run), expected);
}

// An input of an activation function takes one byte an element, also where what the function makes
// is computed again.
TEST_P(Fp8Step, PreActivationsInOneByteTakeLess) {
  TinyRun run = Run();
  run.sequence = 16;
  run.micro_batch = 16;
  run.spec.layers = 4;
  for (const Policy policy : {Policy::kNone, Policy::kSelective}) {
    run.checkpointing.policy = policy;
    run.checkpointing.recompute.patterns = {"norms", "activations"};
    run.amp.fp8.pre_activations = true;
    const int64_t codes = Train(run).arena_bytes;
    run.amp.fp8.pre_activations = false;
    EXPECT_LT(codes, Train(run).arena_bytes) << static_cast<int>(policy);
  }
}

TEST_P(Fp8Step, GradientsMayBeBf16) {
  if (GetParam().dtype != DType::kBFloat16) return;
  TinyRun run = Run();
  run.accumulate = 3;
  const TinyResult wide = Train(run);
  run.amp.low_gradients = true;
  const TinyResult low = Train(run);
  EXPECT_NE(low.losses, wide.losses);
  for (size_t i = 0; i < low.losses.size(); ++i) {
    EXPECT_NEAR(low.losses[i], wide.losses[i], 0.03) << i;
  }
}

TEST_P(Fp8Step, AdaptersTrainOverAFrozenModel) {
  TinyRun run = Run();
  run.lora = {"*"};
  const TinyResult result = Train(run);
  EXPECT_LT(result.losses.back(), result.losses.front());
  run.checkpointing.policy = Policy::kBlock;
  ExpectSameNumbers(Train(run), result);
}

// Where scales are those of earlier steps, norms write codes, two in each of two blocks: the bits
// are those of separate ops.
TEST_P(Fp8Step, FusionsKeepEveryBit) {
  static int64_t norms_with_codes;
  TinyRun run = Run();
  run.change = [](CompiledStep& compiled) {
    norms_with_codes = 0;
    for (const auto& program : compiled.programs) {
      norms_with_codes += std::ranges::count_if(program->nodes(), [](const graph::Node& node) {
        return node.op->name == "quantize_norm";
      });
    }
  };
  const TinyResult fused = Train(run);
  EXPECT_EQ(norms_with_codes, GetParam().window > 0 ? 4 : 0);
  run.without = {"fuse"};
  const TinyResult apart = Train(run);
  EXPECT_EQ(norms_with_codes, 0);
  ExpectSameNumbers(fused, apart);
}

INSTANTIATE_TEST_SUITE_P(Models, Fp8Step,
                         testing::Values(Case{"Gpt2Bf16", false, DType::kBFloat16},
                                         Case{"LlamaBf16", true, DType::kBFloat16},
                                         Case{"LlamaF16", true, DType::kFloat16},
                                         Case{"Gpt2Bf16Delayed", false, DType::kBFloat16, 3},
                                         Case{"LlamaF16Delayed", true, DType::kFloat16, 16},
                                         Case{"Gpt2Bf16Kept", false, DType::kBFloat16, 0, true},
                                         Case{"LlamaF16DelayedKept", true, DType::kFloat16, 16,
                                              true}),
                         [](const auto& info) { return info.param.name; });

TinyRun DelayedRun() {
  TinyRun run;
  run.spec = TinyLlama();
  run.amp.dtype = DType::kBFloat16;
  run.amp.fp8.enabled = true;
  run.amp.fp8.window = 2;
  return run;
}

// The first step has no step before it: each tensor has its own scale, as with `current`.
TEST(Fp8Delayed, BeginsAsCurrent) {
  TinyRun run = DelayedRun();
  const TinyResult delayed = Train(run);
  run.amp.fp8.window = 0;
  const TinyResult current = Train(run);
  EXPECT_EQ(delayed.losses[0], current.losses[0]);
  EXPECT_EQ(delayed.grad_norms[0], current.grad_norms[0]);
  // The same weights, but scales of the first step.
  EXPECT_NE(delayed.losses[1], current.losses[1]);
}

// Scales of the step before: with the same tokens and weights they are those of the tokens
// themselves.
TEST(Fp8Delayed, ScalesAreThoseOfTheStepBefore) {
  TinyRun run = DelayedRun();
  run.repeat = true;
  run.lr = 0;
  run.update.weight_decay = 0;
  const TinyResult delayed = Train(run);
  run.amp.fp8.window = 0;
  ExpectSameNumbers(delayed, Train(run));
}

// What is larger than expected saturates, in one step: the next knows of it.
TEST(Fp8Delayed, MarginsMakeScalesLarger) {
  TinyRun run = DelayedRun();
  const TinyResult one = Train(run);
  run.amp.fp8.margin = 8;
  const TinyResult more = Train(run);
  EXPECT_EQ(more.losses[0], one.losses[0]);
  EXPECT_NE(more.losses[2], one.losses[2]);
  EXPECT_NEAR(more.losses.back(), one.losses.back(), 0.03);
}

// Shares of all values that became codes, whatever the number of micro-steps: they change nothing.
TEST(Fp8Counts, AreSharesOfTheStepsValues) {
  TinyRun run = DelayedRun();
  const TinyResult uncounted = Train(run);
  EXPECT_FALSE(uncounted.last.codes);
  run.amp.fp8.counts = true;
  const TinyResult counted = Train(run);
  ExpectSameNumbers(counted, uncounted);
  ASSERT_TRUE(counted.last.codes);
  EXPECT_EQ(counted.last.codes->overflowed, 0);

  // Scales of half the largest values.
  run.amp.fp8.margin = 0.5;
  const TinyResult small = Train(run);
  EXPECT_GT(small.last.codes->saturated, counted.last.codes->saturated);
  EXPECT_LT(small.last.codes->saturated, 0.05);
  run.micro_batch /= 2;
  run.accumulate *= 2;
  const TinyResult parts = Train(run);
  EXPECT_NEAR(parts.last.codes->saturated, small.last.codes->saturated,
              0.5 * small.last.codes->saturated);
}

// Of a scale from the tensor itself nothing is saturated.
TEST(Fp8Counts, NothingIsSaturatedByItsOwnScale) {
  TinyRun run = DelayedRun();
  run.amp.fp8.window = 0;
  run.amp.fp8.counts = true;
  const TinyResult result = Train(run);
  ASSERT_TRUE(result.last.codes);
  EXPECT_EQ(result.last.codes->saturated, 0);
}

// The scale starts far too high: gradients are infinite, codes of them saturate, and the steps are
// skipped all the same, with nothing changed.
TEST(Fp8Overflow, StepsAreSkippedUntilTheScaleFits) {
  TinyRun run;
  run.spec = TinyLlama();
  run.amp.dtype = DType::kFloat16;
  run.amp.fp8.enabled = true;
  run.update.loss_scale.emplace();
  run.init_loss_scale = 0x1p32;
  run.repeat = true;
  run.steps = 30;
  const TinyResult result = Train(run);
  const auto overflowed = [](double norm) { return !std::isfinite(norm); };
  const auto first = std::ranges::find_if_not(result.grad_norms, overflowed);
  const auto skipped = static_cast<size_t>(first - result.grad_norms.begin());
  EXPECT_GT(skipped, 2u);
  EXPECT_LT(skipped, 20u);
  EXPECT_EQ(result.last.skipped, std::ranges::count_if(result.grad_norms, overflowed));
  for (size_t i = 0; i <= skipped; ++i) {
    EXPECT_EQ(result.losses[i], result.losses[0]) << "step " << i << ": the weights have changed";
  }
}

// In bf16, too: the first step makes weights so large that from the second on gradients overflow.
TEST(Fp8Overflow, SkippedStepsChangeNoBit) {
  for (const int64_t window : {0, 2}) {
    TinyRun run = DelayedRun();
    run.amp.fp8.window = window;
    run.update.skips = true;
    run.lr = 1e36;
    run.steps = 1;
    TinyResult once = Train(run);
    EXPECT_EQ(once.last.skipped, 0);
    run.steps = 4;
    TinyResult often = Train(run);
    EXPECT_EQ(often.last.skipped, 3);
    EXPECT_EQ(often.weights, once.weights);
    for (TinyResult* result : {&once, &often}) result->state.erase("skipped");
    EXPECT_EQ(often.state, once.state);
    EXPECT_EQ(often.state.contains("fp8_largest.history"), window > 0);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
