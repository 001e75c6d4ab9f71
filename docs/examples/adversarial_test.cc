#include "docs/examples/adversarial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "docs/examples/adversarial_training.h"
#include "models/layers.h"
#include "tests/support/expect_error.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

// What Train() does, by two sessions of one objective each, which hand each other what they have
// learned.
Left TrainApart(const Setting& setting, int64_t steps) {
  const auto model = Both(setting.critic_updates);
  ThreadPool pool(2);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const char* only : {"critic", "generator"}) {
    const auto alone = WithParameters(std::make_unique<Adversarial>(Shape(), only));
    CompileOptions options = OptionsOf(setting);
    options.update = std::string(only) == "critic" ? Critic(setting) : Generator(setting);
    sessions.push_back(std::make_unique<Session>(Compile(*alone, options), pool));
    sessions.back()->Initialize(*model, 1);
  }
  Session &critic = *sessions[0], &generator = *sessions[1];
  const auto hand_over = [&](Session& from, Session& to, const std::string& prefix) {
    for (const models::ParameterInfo& parameter : model->Stored()) {
      if (!parameter.name.starts_with(prefix)) continue;
      to.WriteParameter(parameter.name, from.ReadParameter(parameter.name));
    }
  };
  Left left;
  int64_t draw = 0;  // of the critic's next update
  const auto update = [&](Session& session, int64_t step, int64_t tokens, double lr) {
    session.BeginStep(tokens * setting.accumulate, lr, 1);
    for (int64_t micro = 0; micro < setting.accumulate; ++micro) {
      Fill(session, draw + micro);
      session.Run(step, micro);
    }
  };
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < setting.critic_updates; ++i) {
      if (step + i > 0) draw += setting.accumulate;
      update(critic, step, 2 * kBatch, kCriticRate);
    }
    hand_over(critic, generator, "critic.");
    update(generator, step, kBatch, kGeneratorRate);
    hand_over(generator, critic, "generator.");
    for (Session* session : {&critic, &generator}) TakeMetrics(session->Metrics(), left);
  }
  TakeWeights(critic, *model, left);
  return left;
}

std::vector<std::string> RunsOf(const CompiledStep& compiled) {
  std::vector<std::string> runs;
  for (int64_t run = 0; run < compiled.step.runs(); ++run) {
    const StepRun what = compiled.step.At(run);
    runs.push_back(compiled.programs[what.program]->name() + (what.ends ? "*" : "") + " " +
                   std::to_string(what.draw));
  }
  return runs;
}

TEST(Adversarial, HasAStepOfTwoObjectives) {
  const auto model = Both(2);
  const CompiledStep compiled = Compile(*model, BothOptions({.accumulate = 3}));
  EXPECT_EQ(RunsOf(compiled),
            (std::vector<std::string>{
                "critic.train_first 0", "critic.train_middle 1", "critic.train_last* 2",
                "critic.train_first 3", "critic.train_middle 4", "critic.train_last* 5",
                "generator.train_first 3", "generator.train_middle 4", "generator.train_last* 5"}));
  EXPECT_EQ(compiled.step.draws, 6);
}

// One program has the critic's last update and the generator's, and makes the points once.
TEST(Adversarial, SharesTheGeneratorsPoints) {
  const auto model = Both(2);
  const CompiledStep compiled = Compile(*model, BothOptions({}));
  EXPECT_EQ(RunsOf(compiled),
            (std::vector<std::string>{"critic.train* 0", "critic.train+generator.train* 1"}));
  EXPECT_EQ(compiled.step.draws, 2);
  EXPECT_EQ(compiled.step.micro_steps(), 3);
  EXPECT_EQ(compiled.programs.size(), 2u);
  int64_t made = 0, judged = 0;
  for (const graph::Node& node : compiled.programs[1]->nodes()) {
    if (node.phase != graph::Phase::kForward || node.op->name != "linear") continue;
    made += node.scope.starts_with("generator");
    judged += node.scope.starts_with("critic");
  }
  EXPECT_EQ(made, 3);  // its layers
  EXPECT_GE(judged, 3 * 2);
}

TEST(Adversarial, HasTheSameBitsInOneProgramAndInTwo) {
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kFloat16}) {
    for (const int64_t critic_updates : {1, 2}) {
      const Setting joined{.critic_updates = critic_updates, .dtype = dtype, .check_arena = true};
      Setting apart = joined;
      apart.join_updates = false;
      EXPECT_EQ(Compile(*Both(critic_updates), BothOptions(apart)).programs.size(), 2u);
      EXPECT_EQ(Compile(*Both(critic_updates), BothOptions(joined)).programs.size(),
                static_cast<size_t>(critic_updates));
      EXPECT_EQ(Train(joined, 4), Train(apart, 4));
    }
  }
}

TEST(Adversarial, TrainsAsTwoSessionsDoThatTakeTurns) {
  for (const Setting& setting :
       {Setting{}, Setting{.accumulate = 2}, Setting{.accumulate = 3, .critic_updates = 2},
        Setting{.critic_updates = 3}}) {
    SCOPED_TRACE(testing::Message() << setting.accumulate << " " << setting.critic_updates);
    EXPECT_EQ(Train(setting, 6), TrainApart(setting, 6));
  }
}

TEST(Adversarial, TakesSeveralMicroStepsAtOnce) {
  const Setting setting{.accumulate = 4, .critic_updates = 2, .check_arena = true};
  const Left one = Train(setting, 3);
  for (const int64_t together : {2, 4}) {
    Setting several = setting;
    several.micro_steps_per_program = together;
    EXPECT_EQ(Train(several, 3), one);
  }
}

TEST(Adversarial, ScalesEachLossByItself) {
  for (const graph::DType dtype : {graph::DType::kBFloat16, graph::DType::kFloat16}) {
    const Setting setting{.accumulate = 2, .dtype = dtype};
    const Left apart = TrainApart(setting, 4), both = Train(setting, 4);
    EXPECT_EQ(both.losses, apart.losses);
    EXPECT_EQ(both.norms, apart.norms);
    EXPECT_EQ(both.declared, apart.declared);
  }
  const auto model = Both(1);
  const CompiledStep compiled = Compile(*model, BothOptions({.dtype = graph::DType::kFloat16}));
  ASSERT_EQ(compiled.programs.size(), 1u);
  EXPECT_NE(compiled.programs[0]->Find("critic.loss_scale"), graph::kNoTensor);
  EXPECT_NE(compiled.programs[0]->Find("generator.loss_scale"), graph::kNoTensor);
}

TEST(Adversarial, HasTheSameBitsUnderAllPolicies) {
  const Left kept = Train({.accumulate = 2, .check_arena = true}, 3);
  using checkpointing::Options;
  for (const Options& options : {Options{.policy = Options::Policy::kBlock},
                                 Options{.policy = Options::Policy::kSelective,
                                 .recompute = {{"activations"}, "checkpointing.recompute"}}}) {
    const Setting setting{.accumulate = 2, .checkpointing = options, .check_arena = true};
    // What is dropped is made again by its own op, or by a fused one that also reads it.
    int64_t dropped = 0;
    const CompiledStep compiled = Compile(*Both(1), BothOptions(setting));
    for (const auto& program : compiled.programs) {
      for (const graph::Tensor& tensor : program->tensors()) {
        dropped += tensor.retention == graph::Retention::kRecompute;
      }
    }
    EXPECT_GE(dropped, 8);
    EXPECT_EQ(Train(setting, 3), kept);
  }
}

TEST(Adversarial, TellsOfEachObjectiveWhatTheModelDeclares) {
  const Setting setting{.accumulate = 3, .critic_updates = 2};
  const auto model = Both(2);
  CompileOptions options = BothOptions(setting);
  options.evaluate = true;
  ThreadPool pool(2);
  Session session(Compile(*model, options), pool);
  session.Initialize(*model, 1);
  std::vector<std::string> names;
  for (const MetricInfo& metric : session.metrics()) {
    names.push_back(metric.name + " " + metric.type.ToString());
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "critic.loss f32[]", "critic.grad_norm f32[]", "critic.of_real f32[]",
                       "critic.of_fake f32[]", "critic.accuracy i32[]", "critic.confusion i32[2,2]",
                       "generator.loss f32[]", "generator.grad_norm f32[]",
                       "generator.fooled i32[]", "generator.distance f32[]"}));
  Left left;
  RunSteps(session, setting, 0, 30, left);
  const auto check = [&](const StepMetrics& critic, const StepMetrics& generator, double rows) {
    ASSERT_EQ(critic.declared.size(), 4u);
    const auto &of_real = critic.declared[0], &of_fake = critic.declared[1],
               &accuracy = critic.declared[2], &confusion = critic.declared[3];
    EXPECT_NEAR(of_real.value() + of_fake.value(), critic.loss, 1e-6);
    EXPECT_EQ(accuracy.count, 2 * rows);
    const std::vector<double>& said = confusion.sum;  // of fake points, of real ones
    EXPECT_EQ(said[0] + said[1], rows);
    EXPECT_EQ(said[2] + said[3], rows);
    EXPECT_EQ(accuracy.sum[0], said[0] + said[3]);
    EXPECT_EQ(accuracy.value(), accuracy.sum[0] / (2 * rows));
    ASSERT_EQ(generator.declared.size(), 2u);
    EXPECT_EQ(generator.declared[0].count, rows);
    EXPECT_EQ(generator.declared[1].count, rows);
  };
  check(session.Metrics(0), session.Metrics(1), 3 * kBatch);

  // An evaluation sees the generator's points with one critic: what this took for real has fooled
  // it.
  Fill(session, 1000);
  std::ranges::fill(session.slot("real_label").values<int32_t>(), 1);
  const std::vector<int64_t> rows = {2 * kBatch, kBatch};
  const std::span<const StepMetrics> metrics = session.Evaluate(rows, kBatch);
  check(metrics[0], metrics[1], kBatch);
  EXPECT_EQ(metrics[1].declared[0].sum[0], metrics[0].declared[3].sum[1]);
  ExpectInternalError([&] { session.Evaluate(1); }, {"2 objectives"});
}

TEST(Adversarial, GoesOnFromItsState) {
  const Setting setting{.critic_updates = 2};
  const auto model = Both(2);
  ThreadPool pool(2);
  Left whole, resumed;
  Session session(Compile(*model, BothOptions(setting)), pool);
  session.Initialize(*model, 1);
  RunSteps(session, setting, 0, 3, whole);
  Session other(Compile(*model, BothOptions(setting)), pool);
  for (const StateTensor& tensor : session.State()) {
    std::vector<std::byte> bytes(
        static_cast<size_t>(tensor.elements * graph::ByteSize(tensor.dtype)));
    session.ReadState(tensor, 0, bytes);
    other.WriteState(tensor, 0, bytes);
  }
  whole = {};
  RunSteps(session, setting, 3, 5, whole);
  RunSteps(other, setting, 3, 5, resumed);
  TakeWeights(session, *model, whole);
  TakeWeights(other, *model, resumed);
  EXPECT_EQ(whole, resumed);
}

// x · weightᵀ + bias of the layer `name`, from the session's weights.
std::vector<double> Layer(Session& session, const std::string& name, const std::vector<double>& x) {
  const std::vector<float> weight = session.ReadParameter(name + ".weight");
  const std::vector<float> bias = session.ReadParameter(name + ".bias");
  std::vector<double> y(bias.begin(), bias.end());
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t k = 0; k < x.size(); ++k) y[i] += x[k] * weight[i * x.size() + k];
  }
  return y;
}

// The mean of generated points.
std::vector<double> Center(Session& session) {
  constexpr int kPoints = 200;
  std::mt19937 random(99);
  std::normal_distribution<double> normal;
  std::vector<double> mean = {0, 0};
  for (int point = 0; point < kPoints; ++point) {
    std::vector<double> x(Adversarial::kNoise);
    for (double& value : x) value = normal(random);
    for (const char* layer : {"generator.block.0.fc", "generator.block.1.fc"}) {
      x = Layer(session, layer, x);
      for (double& v : x) v *= 0.5 * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
    }
    x = Layer(session, "generator.out", x);
    for (size_t i = 0; i < 2; ++i) mean[i] += x[i] / kPoints;
  }
  return mean;
}

TEST(Adversarial, Learns) {
  const auto model = Both(1);
  ThreadPool pool(2);
  Session session(Compile(*model, BothOptions({})), pool);
  session.Initialize(*model, 1);
  const auto distance = [](const std::vector<double>& center) {
    return std::hypot(center[0] - 2, center[1] + 1);
  };
  EXPECT_GT(distance(Center(session)), 1.5);
  Left left;
  RunSteps(session, {}, 0, 1000, left);
  // It circles around what it is to find.
  std::vector<double> mean = {0, 0};
  for (int64_t step = 1000; step < 1500; step += 50) {
    RunSteps(session, {}, step, step + 50, left);
    const std::vector<double> center = Center(session);
    for (size_t i = 0; i < 2; ++i) mean[i] += center[i] / 10;
  }
  EXPECT_LT(distance(mean), 0.4);
  // A critic that can't tell says nothing better than half.
  double critic = 0;
  for (size_t step = 1000; step < 1500; ++step) critic += left.losses[2 * step] / 500;
  EXPECT_NEAR(critic, std::log(2), 0.05);
}

// Of one parameter.
class Small final : public models::Model {
 public:
  explicit Small(std::vector<models::Objective> objectives)
      : Model("small"), objectives_(std::move(objectives)) {}
  std::vector<models::Objective> objectives() const override { return objectives_; }
  std::vector<models::Sharding> sharding() const override { return {}; }
  models::CheckpointTable checkpoint_table() const override { return {}; }

 protected:
  Outputs Forward(models::Layers& g, models::Head) const override {
    g.Parameter("w", {2}, {});
    return {};
  }

 private:
  std::vector<models::Objective> objectives_;
};

TEST(Objectives, AreRefusedWhereTheyMakeNoSense) {
  const auto compile = [](std::vector<models::Objective> objectives) {
    Compile(*WithParameters(std::make_unique<Small>(std::move(objectives))), {});
  };
  ExpectInternalError(
      [&] {
        compile({{.name = "a"}, {.name = "b"}});
      },
      {"'w' is trained by more than one objective"});
  ExpectInternalError([&] { compile({{.name = "a", .data = "b"}}); }, {"objective 'a'", "'b'"});
}

// With the same points, the second update's loss is halved if it counts twice as many targets.
TEST(Session, DividesEachUpdatesLossByItsOwnTargets) {
  const Setting setting{.critic_updates = 2};
  const auto loss = [&](std::vector<int64_t> targets) {
    const auto model = Both(2);
    ThreadPool pool(2);
    Session session(Compile(*model, BothOptions(setting)), pool);
    session.Initialize(*model, 1);
    session.BeginStep(
        std::vector<ObjectiveStep>{{std::move(targets), kCriticRate}, {{kBatch}, kGeneratorRate}},
        1);
    for (int64_t run = 0; run < session.compiled().step.runs(); ++run) {
      Fill(session, run);
      session.Run(0, run);
    }
    return session.Metrics(0).loss;
  };
  const double even = loss({2 * kBatch, 2 * kBatch});
  EXPECT_GT(even, 0);
  EXPECT_EQ(2 * loss({2 * kBatch, 4 * kBatch}), even);
}

TEST(Session, WantsToBeToldAboutAllObjectives) {
  ThreadPool pool(2);
  Session session(Compile(*Both(1), BothOptions({})), pool);
  ExpectInternalError([&] { session.BeginStep(1, 1e-3, 1); }, {"2 objectives"});
  ExpectInternalError([&] { session.slot("tokens"); }, {"'tokens'"});
}

}  // namespace
}  // namespace plimsoll::trainer
