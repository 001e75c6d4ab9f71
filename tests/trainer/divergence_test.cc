// What counts as a divergence, and the response to it.
#include "trainer/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "trainer/config/load.h"

namespace plimsoll::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

config::RunConfig Config(const std::string& divergence) {
  return config::LoadText(
             "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 16, vocab: 64}\n"
             "data: {synthetic: true}\nsave: {every: 5}\n"
             "amp: {dtype: fp16, max_skips: 4}\ndivergence: " +
                 divergence + "\n",
             "run.yaml", {})
      .config;
}

// The metrics of a step with one objective.
std::vector<StepMetrics> Metrics(double loss, double norm = 1, int64_t in_a_row = 0) {
  return {{.loss = loss, .grad_norm = norm, .skipped_in_a_row = in_a_row}};
}

const std::vector<JudgedObjective> kPlain = {{}}, kScaled = {{.loss_is_scaled = true}};

TEST(Divergence, ALimitIsOfGoodLossesUntilTwoStepsBefore) {
  const config::RunConfig config = Config("{action: skip, spike: 3, window: 4}");
  Divergence divergence(config, kPlain, 0, {});
  const std::vector<double> losses = {1, 2, 1, 2};  // mean 1.5, deviation 0.5
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(divergence.LimitOf(step), kNoLossLimit);
    EXPECT_EQ(divergence.Judge(step, Metrics(losses[step])).kind, Verdict::kGood);
  }
  EXPECT_EQ(divergence.LimitOf(4), kNoLossLimit);
  EXPECT_EQ(divergence.LimitOf(5), 3.0f);
  EXPECT_EQ(divergence.Judge(4, Metrics(2)).kind, Verdict::kGood);  // 2, 1, 2, 2
  const float sixth = divergence.LimitOf(6);
  EXPECT_FLOAT_EQ(sixth, static_cast<float>(1.75 + 3 * std::sqrt(0.1875)));
  EXPECT_EQ(divergence.Judge(5, Metrics(3)).kind, Verdict::kGood);  // 1, 2, 2, 3
  // Spikes and non-finite losses leave the limit unchanged.
  const float seventh = divergence.LimitOf(7);
  EXPECT_EQ(divergence.Judge(6, Metrics(50)).kind, Verdict::kSkipped);
  EXPECT_EQ(divergence.Judge(7, Metrics(1, kNan)).kind, Verdict::kSkipped);
  EXPECT_EQ(divergence.LimitOf(8), seventh);
  EXPECT_EQ(divergence.LimitOf(9), seventh);
  EXPECT_THAT(divergence.state().objectives.at(0).losses, ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(divergence.good(), 7);  // its loss is good, and so are the weights before it
}

// The state in a snapshot is sufficient, wherever it was made.
TEST(Divergence, GoesOnFromItsState) {
  const config::RunConfig config = Config("{action: skip, spike: 2, window: 3}");
  const std::vector<double> losses = {1, 2, 1, 9, 2, 1, 5, 2, 2, 3, 9, 1, 1};
  for (int stop = 1; stop < std::ssize(losses); ++stop) {
    Divergence whole(config, kPlain, 0, {});
    std::optional<Divergence> first(std::in_place, config, kPlain, 0, DivergenceState());
    for (int step = 0; step < std::ssize(losses); ++step) {
      if (step == stop) first.emplace(config, kPlain, step, DivergenceState(first->state()));
      EXPECT_EQ(first->LimitOf(step), whole.LimitOf(step)) << stop << " " << step;
      EXPECT_EQ(first->Judge(step, Metrics(losses[step])).kind,
                whole.Judge(step, Metrics(losses[step])).kind);
    }
  }
}

TEST(Divergence, EqualLossesAreNoSpikes) {
  const config::RunConfig config = Config("{spike: 1, window: 7}");
  Divergence divergence(config, kPlain, 0, {});
  for (int step = 0; step < 40; ++step) {
    EXPECT_EQ(divergence.Judge(step, Metrics(0.1f)).kind, Verdict::kGood) << step;
  }
}

TEST(Divergence, WhatIsNoNumberEndsARunThatSaysNothingElse) {
  const config::RunConfig config = Config("{}");
  Divergence divergence(config, kPlain, 0, {});
  EXPECT_EQ(divergence.Judge(0, Metrics(1e30)).kind, Verdict::kGood);
  const std::vector<std::pair<std::vector<StepMetrics>, std::string>> cases = {
      {Metrics(kNan), "loss nan is not finite; stopped"},
      {Metrics(kInfinity), "loss inf is not finite; stopped"},
      {Metrics(-kInfinity), "loss -inf is not finite; stopped"},
      {Metrics(1, kNan), "gradient norm nan is not finite (loss 1); stopped"},
      {Metrics(3e30, kInfinity), "gradient norm inf is not finite (loss 3e+30); stopped"},
      {Metrics(kNan, kInfinity), "loss nan and gradient norm inf are not finite; stopped"}};
  for (const auto& [bad, text] : cases) {
    const Verdict verdict = divergence.Judge(1, bad);
    EXPECT_EQ(verdict.kind, Verdict::kStop);
    ExpectText(verdict.text, {"step 1: " + text});
  }
}

// Their squares overflow in second moments.
TEST(Divergence, NamesGradientsThatAreTooLargeToSquare) {
  for (const bool scaled : {false, true}) {
    const config::RunConfig config = Config("{action: skip, spike: 3, window: 2}");
    Divergence divergence(config, {{.loss_is_scaled = scaled, .largest_norm = 0x1p63}}, 0, {});
    EXPECT_EQ(divergence.Judge(0, Metrics(1, 9e18)).kind, Verdict::kGood);
    const Verdict verdict = divergence.Judge(1, Metrics(1, 6e19, 1));
    EXPECT_EQ(verdict.kind, Verdict::kSkipped);
    ExpectText(verdict.text, {"step 1: gradient norm 6e+19 is beyond 9.223e+18",
                              "second moments (loss 1); its update was skipped"});
    EXPECT_THAT(divergence.state().objectives.at(0).losses, ElementsAre(1));
  }
}

// Loss scaling handles them itself.
TEST(Divergence, OverflowsOfScaledGradientsAreNone) {
  for (const char* action : {"{action: stop}", "{action: skip}", "{action: rollback}"}) {
    const config::RunConfig config = Config(action);
    Divergence divergence(config, kScaled, 0, {});
    EXPECT_EQ(divergence.Judge(0, Metrics(kNan, kNan, 1)).kind, Verdict::kGood);
    EXPECT_EQ(divergence.good(), -1);
    EXPECT_EQ(divergence.Judge(1, Metrics(1, kInfinity, 2)).kind, Verdict::kGood);
    EXPECT_EQ(divergence.Judge(2, Metrics(1, kInfinity, 3)).kind, Verdict::kGood);
    const Verdict many = divergence.Judge(3, Metrics(1, kInfinity, 4));
    EXPECT_EQ(many.kind, Verdict::kStop);
    EXPECT_THAT(many.text,
                HasSubstr("4 steps in a row (amp.max_skips), the loss scale being down"));
  }
}

TEST(Divergence, AStaticLossScaleIsNotDown) {
  config::RunConfig config = Config("{action: stop}");
  config.amp.loss_scale = config::LossScale::kStatic;
  Divergence divergence(config, kScaled, 0, {});
  const std::string text = divergence.Judge(0, Metrics(1, kInfinity, 4)).text;
  ExpectText(text,
             {"the loss scale 1, which stays (amp.loss_scale: static)", "smaller amp.init_scale"});
  EXPECT_THAT(text, testing::Not(HasSubstr("down to")));
}

TEST(Divergence, SkipsSoManyInARow) {
  const config::RunConfig config = Config("{action: skip, max_skips: 2}");
  Divergence divergence(config, kPlain, 0, {});
  EXPECT_EQ(divergence.Judge(0, Metrics(kNan, 1, 1)).kind, Verdict::kSkipped);
  EXPECT_EQ(divergence.Judge(1, Metrics(1, 1, 0)).kind, Verdict::kGood);
  EXPECT_EQ(divergence.Judge(2, Metrics(kNan, 1, 1)).kind, Verdict::kSkipped);
  EXPECT_EQ(divergence.Judge(3, Metrics(kNan, 1, 2)).kind, Verdict::kStop);
}

TEST(Divergence, GoesBackSoOften) {
  const config::RunConfig config =
      Config("{action: rollback, spike: 3, window: 2, lr_factor: 0.5, max_rollbacks: 2}");
  Divergence divergence(config, kPlain, 0, {});
  for (int step = 0; step < 5; ++step) divergence.Judge(step, Metrics(1));
  const DivergenceState then = divergence.state();
  divergence.Judge(5, Metrics(1));
  EXPECT_EQ(divergence.good(), 5);
  EXPECT_EQ(divergence.Judge(6, Metrics(7)).kind, Verdict::kRollBack);
  divergence.GoBack(5, then);
  EXPECT_EQ(divergence.lr_factor(), 0.5);
  EXPECT_EQ(divergence.good(), 5);
  EXPECT_EQ(divergence.Judge(5, Metrics(kNan)).kind, Verdict::kRollBack);
  divergence.GoBack(3, DivergenceState());
  EXPECT_EQ(divergence.lr_factor(), 0.25);  // for any rate in the snapshot
  EXPECT_EQ(divergence.state().rollbacks, 2);
  EXPECT_EQ(divergence.good(), 3);
  EXPECT_EQ(divergence.LimitOf(3), kNoLossLimit);
  const Verdict last = divergence.Judge(3, Metrics(kNan));
  EXPECT_EQ(last.kind, Verdict::kStop);
  EXPECT_THAT(last.text, HasSubstr("stopped after 2 rollbacks (divergence.max_rollbacks)"));
}

// Metrics of two objectives: the losses of a critic and a generator.
std::vector<StepMetrics> Both(double critic, double generator, int64_t critic_in_a_row = 0) {
  return {{.loss = critic, .grad_norm = 1, .skipped_in_a_row = critic_in_a_row},
          {.loss = generator, .grad_norm = 1}};
}

TEST(Divergence, JudgesEachObjectiveByItsOwnLosses) {
  const config::RunConfig config = Config("{action: skip, spike: 3, window: 2}");
  Divergence divergence(config, {{.name = "critic"}, {.name = "generator"}}, 0, {});
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(divergence.Judge(step, Both(1, 10)).kind, Verdict::kGood);
  }
  EXPECT_EQ(divergence.LimitOf(4, 0), 1);
  EXPECT_EQ(divergence.LimitOf(4, 1), 10);
  const Verdict critic = divergence.Judge(4, Both(5, 10));
  EXPECT_EQ(critic.kind, Verdict::kSkipped);
  EXPECT_THAT(critic.text, HasSubstr("step 4, critic: loss 5.0000 is a spike, beyond 1.0000"));
  EXPECT_EQ(divergence.good(), 3);
  EXPECT_THAT(divergence.Judge(5, Both(1, 11)).text, HasSubstr("step 5, generator: loss 11.0000"));
  EXPECT_EQ(divergence.good(), 3);
  EXPECT_EQ(divergence.Judge(6, Both(1, 10)).kind, Verdict::kGood);
  EXPECT_EQ(divergence.good(), 6);
  // The step's verdict is the worst of all objectives' verdicts.
  const Verdict both = divergence.Judge(7, Both(5, kNan));
  EXPECT_EQ(both.kind, Verdict::kSkipped);
  EXPECT_EQ(divergence.Judge(8, Both(5, kNan, 10)).kind, Verdict::kStop);
}

TEST(Divergence, OverflowsOfOneObjectiveExcuseNoOther) {
  const config::RunConfig config = Config("{action: stop}");
  Divergence divergence(config, {{.name = "a", .loss_is_scaled = true}, {.name = "b"}}, 0, {});
  const StepMetrics good{.loss = 1, .grad_norm = 1}, overflow{.loss = 1, .grad_norm = kNan};
  EXPECT_EQ(divergence.Judge(0, std::vector{overflow, good}).kind, Verdict::kGood);
  EXPECT_THAT(divergence.Judge(1, std::vector{good, overflow}).text,
              HasSubstr("step 1, b: gradient norm"));
}

TEST(Divergence, GoesBackWithAllObjectives) {
  const config::RunConfig config = Config("{action: rollback, spike: 3, window: 2}");
  const std::vector<JudgedObjective> objectives = {{.name = "a"}, {.name = "b"}};
  Divergence divergence(config, objectives, 0, {});
  for (int step = 0; step < 3; ++step) divergence.Judge(step, Both(1, 10));
  const DivergenceState then = divergence.state();
  for (int step = 3; step < 6; ++step) divergence.Judge(step, Both(0.5, 5));
  EXPECT_EQ(divergence.LimitOf(6, 1), 5);
  divergence.GoBack(3, then);
  EXPECT_EQ(divergence.LimitOf(3, 0), 1);
  EXPECT_EQ(divergence.LimitOf(3, 1), 10);
  // With a state of fewer objectives, the others begin from scratch.
  Divergence other(config, objectives, 3, DivergenceState());
  EXPECT_EQ(other.LimitOf(3, 1), kNoLossLimit);
}

}  // namespace
}  // namespace plimsoll::trainer
