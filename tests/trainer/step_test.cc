// Whole training steps: options that must not change the numbers, to the bit, and options that may
// by rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "base/glob.h"
#include "tests/support/allocation_counter.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

std::vector<TinyRun> Variants() {
  std::vector<TinyRun> runs;
  for (const models::ModelSpec& spec : {TinyGpt2(), TinyLlama()}) {
    for (int64_t accumulate : {1, 2, 4}) {
      TinyRun run;
      run.spec = spec;
      run.accumulate = accumulate;
      runs.push_back(run);
      run.spec.dropout = 0.2;
      if (spec.family == "gpt2") runs.push_back(run);
    }
  }
  return runs;
}

TEST(Step, LearnsTokensByHeart) {
  for (TinyRun run : Variants()) {
    run.repeat = true;
    run.steps = 40;
    run.lr = 1e-2;
    const std::vector<double> losses = Train(run).losses;
    EXPECT_NEAR(losses.front(), std::log(96), 0.2);
    EXPECT_LT(losses.back(), 0.8 * losses.front());
  }
}

TEST(Step, TwoRunsAreEqual) {
  for (const TinyRun& run : Variants()) ExpectSameNumbers(Train(run), Train(run));
}

// The other parameters get the same gradients with frozen parameters as without; frozen parameters
// stay unchanged, and have neither gradients nor moments.
TEST(Step, FrozenParametersStay) {
  for (TinyRun run : Variants()) {
    for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(dtype) << " " << run.accumulate);
      run.amp.dtype = dtype;
      run.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
      run.update.clip_grad_norm = 0;  // fewer gradients give another norm
      run.steps = 1;
      run.frozen = {};
      const TinyResult all = Train(run);
      run.frozen = {"block.0.*", "embed.*"};
      const TinyResult some = Train(run);
      run.lr = 0;
      const TinyResult none = Train(run);
      run.lr = 1e-3;
      const auto model = models::MakeModel(run.spec);
      EXPECT_LT(some.arena_bytes, all.arena_bytes);
      size_t frozen = 0;
      for (size_t i = 0; i < all.weights.size(); ++i) {
        const std::string& name = model->parameters()[i].name;
        SCOPED_TRACE(name);
        if (MatchesAnyGlob(run.frozen, name)) {
          ++frozen;
          EXPECT_EQ(some.weights[i], none.weights[i]);
        } else {
          EXPECT_EQ(some.weights[i], all.weights[i]);
          EXPECT_NE(some.weights[i], none.weights[i]);
        }
      }
      EXPECT_GT(frozen, 4u);
    }
  }
}

// Among equal steps, skipped steps have no effect; a gate that stays open changes nothing.
TEST(Step, ASkippedStepLeavesNoTrace) {
  std::vector<TinyRun> runs = Variants();
  std::erase_if(runs, [](const TinyRun& run) { return run.spec.dropout.any(); });  // by the step
  for (const graph::DType dtype : {graph::DType::kBFloat16, graph::DType::kFloat16}) {
    TinyRun run;
    run.accumulate = 2;
    run.amp.dtype = dtype;
    if (dtype == graph::DType::kFloat16) run.update.loss_scale = ops::LossScaleOptions{};
    runs.push_back(run);
    run.state_on_host = true;
    runs.push_back(run);
  }
  for (TinyRun run : runs) {
    run.repeat = true;
    run.steps = 4;
    const TinyResult plain = Train(run);
    run.update.skips = true;
    ExpectSameNumbers(plain, Train(run));
    run.steps = 6;
    run.loss_limits = {{1, 0.5f}, {4, 0.5f}, {5, 100.0f}};
    const TinyResult skipping = Train(run);
    EXPECT_EQ(skipping.weights, plain.weights);
    EXPECT_EQ(skipping.losses[1], skipping.losses[2]);
    EXPECT_EQ(skipping.losses.back(), plain.losses.back());
    EXPECT_EQ(skipping.last.skipped, plain.last.skipped + 2);
    EXPECT_EQ(skipping.last.skipped_in_a_row, 0);
  }
}

TEST(Step, ThreadsDontMatter) {
  for (TinyRun run : Variants()) {
    run.threads = 1;
    const TinyResult one = Train(run);
    for (int threads : {2, 3}) {
      run.threads = threads;
      ExpectSameNumbers(one, Train(run));
    }
  }
}

// Programs of several micro-steps give the bits of programs of one, with all that depends on the
// number of a micro-step, in no more memory for activations.
TEST(Step, MicroStepsInOneProgramGiveTheSameBits) {
  std::vector<TinyRun> runs = Variants();
  std::erase_if(runs, [](const TinyRun& run) { return run.accumulate != 4; });
  TinyRun rounding;
  rounding.accumulate = 4;
  rounding.amp.dtype = graph::DType::kBFloat16;
  rounding.update.master_weights = false;  // rounded stochastically
  rounding.checkpointing.policy = checkpointing::Options::Policy::kBlock;
  runs.push_back(rounding);
  TinyRun scaled;
  scaled.accumulate = 4;
  scaled.amp.dtype = graph::DType::kFloat16;
  scaled.update.loss_scale = ops::LossScaleOptions{};
  scaled.update.skips = true;
  scaled.loss_limits = {{1, 0.5f}};
  scaled.state_on_host = true;
  runs.push_back(scaled);
  for (TinyRun run : runs) {
    run.evaluate = true;
    run.ignored = 0.2;
    run.executor.check_arena = true;
    const TinyResult one = Train(run);
    for (const int64_t together : {2, 4}) {
      SCOPED_TRACE(testing::Message() << run.spec.family << " " << together);
      run.micro_steps_per_program = together;
      run.executor.poison = together == 4;
      run.executor.check_arena = together == 2;
      const TinyResult several = Train(run);
      ExpectSameNumbers(several, one);
      EXPECT_EQ(several.evaluations, one.evaluations);
      EXPECT_EQ(several.last.skipped, one.last.skipped);
      EXPECT_EQ(several.last.skipped, static_cast<int64_t>(run.loss_limits.size()));
      if (run.executor.check_arena) {
        EXPECT_EQ(several.used_bytes, several.arena_bytes);
      }
      // Each micro-step has its own slots.
      const int64_t slots = (together - 1) * 2 * run.micro_batch * run.sequence * 4;
      EXPECT_LE(several.arena_bytes, one.arena_bytes + slots + 64 * 4 * together);
    }
  }
}

// Every temporary is filled with NaN when it dies: no dead memory is read.
TEST(Step, PoisonDoesntMatter) {
  for (TinyRun run : Variants()) {
    run.evaluate = true;
    const TinyResult plain = Train(run);
    run.executor.poison = true;
    ExpectSameNumbers(plain, Train(run));
  }
}

TEST(Step, UsedMemoryIsPlannedMemory) {
  for (TinyRun run : Variants()) {
    run.evaluate = true;
    run.executor.check_arena = true;
    const TinyResult result = Train(run);
    EXPECT_EQ(result.used_bytes, result.arena_bytes);
  }
}

TEST(Step, EvaluationDoesntDisturbTraining) {
  for (TinyRun run : Variants()) {
    const TinyResult without = Train(run);
    run.evaluate = true;
    TinyResult with = Train(run);
    EXPECT_EQ(with.evaluations.size(), with.losses.size());
    with.evaluations.clear();
    ExpectSameNumbers(without, with);
  }
}

// Micro-batches with different numbers of counting targets give the gradient of one large batch.
TEST(Step, AccumulationEqualsOneLargeBatch) {
  for (const models::ModelSpec& spec : {TinyGpt2(), TinyLlama()}) {
    TinyRun whole;
    whole.spec = spec;
    whole.ignored = 0.4;
    whole.micro_batch = 8;
    const TinyResult expected = Train(whole);
    for (int64_t accumulate : {2, 4, 8}) {
      TinyRun parts = whole;
      parts.accumulate = accumulate;
      parts.micro_batch = 8 / accumulate;
      const TinyResult result = Train(parts);
      for (size_t i = 0; i < expected.losses.size(); ++i) {
        EXPECT_NEAR(result.losses[i], expected.losses[i], 1e-5 * expected.losses[i]);
        EXPECT_NEAR(result.grad_norms[i], expected.grad_norms[i], 1e-4 * expected.grad_norms[i]);
      }
    }
  }
}

TEST(Step, SgdTrains) {
  TinyRun run;
  run.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  const TinyResult with_momentum = Train(run);
  run.update.momentum = 0;
  const TinyResult plain = Train(run);
  // The first update is the same, the second is not.
  EXPECT_EQ(with_momentum.losses[1], plain.losses[1]);
  EXPECT_NE(with_momentum.losses[2], plain.losses[2]);
}

TEST(Step, AllocatesNothingInSteadyState) {
  for (int64_t accumulate : {1, 3}) {
    const auto model = models::MakeModel(TinyGpt2());
    ThreadPool pool(2);
    CompileOptions options;
    options.micro_batch = 4;
    options.sequence = 16;
    options.accumulate = accumulate;
    options.evaluate = true;
    options.threads = 2;
    Session session(Compile(*model, options), pool);
    session.Initialize(*model, 1);
    auto step = [&](int64_t number) {
      session.BeginStep(64 * accumulate, 1e-3, 7);
      for (int64_t micro = 0; micro < accumulate; ++micro) session.Run(number, micro);
      session.Evaluate(64);
    };
    step(0);
    EXPECT_EQ(CountAllocations([&] { step(1); }), 0);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
