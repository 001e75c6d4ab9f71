// States that a model carries from step to step: what micro-steps, updates, skipped steps and
// evaluations do with them.
#include "trainer/step/model_states.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/remembering_model.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kRows = 4;
enum { kMean, kSeen, kOwn };  // metrics

CompileOptions Options(int64_t accumulate) {
  CompileOptions options;
  options.micro_batch = kRows;
  options.sequence = 1;
  options.accumulate = accumulate;
  options.evaluate = true;
  options.threads = 2;
  options.update.skips = true;
  return options;
}

struct Running {
  explicit Running(const CompileOptions& options)
      : pool(2), session(Compile(*MakeRemembering(), options), pool, {.check_arena = true}) {
    session.Initialize(*MakeRemembering(), 1);
  }
  // Of a NaN among the points the step is skipped.
  StepMetrics Step(int64_t step, bool nan = false) {
    session.BeginStep(kRows * session.accumulate(), 1e-2, 1);
    for (int64_t micro = 0; micro < session.accumulate(); ++micro) {
      FillPoints(session, step * session.accumulate() + micro);
      if (nan && micro == 0) {
        session.slot("x").values<float>()[1] = std::numeric_limits<float>::quiet_NaN();
      }
      session.Run(step, micro);
    }
    return session.Metrics();
  }
  ThreadPool pool;
  Session session;
};

// What the states should be.
struct Expected {
  std::vector<double> mean = {0.5, 0.5, 0.5}, own = {0, 0, 0};
  double seen = 0;

  void Add(const std::vector<double>& now) {
    for (size_t i = 0; i < mean.size(); ++i) {
      for (int k = 0; k < 2; ++k) mean[i] += (now[i] - mean[i]) * Remembering::kMomentum / 2;
      own[i] += now[i];
    }
    ++seen;
  }
};

void ExpectNear(const std::vector<float>& values, const std::vector<double>& expected,
                double tolerance = 1e-5) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

void ExpectStates(Session& session, const Expected& expected, double tolerance = 1e-5) {
  ExpectNear(session.Read<float>("norm.mean"), expected.mean, tolerance);
  ExpectNear(session.Read<float>("norm.own"), expected.own, tolerance * 10);
  EXPECT_EQ(session.Read<float>("norm.seen")[0], expected.seen);
}

TEST(ModelStates, FollowTheMicroStepsOfEachStep) {
  for (const int64_t accumulate : {1, 2, 4}) {
    SCOPED_TRACE(accumulate);
    Running running(Options(accumulate));
    Expected expected;
    ExpectStates(running.session, expected);
    for (int64_t step = 0; step < 3; ++step) {
      const Expected before = expected;
      const StepMetrics metrics = running.Step(step);
      // Every micro-step read what the step began with.
      EXPECT_EQ(metrics.declared[kSeen].count, accumulate);
      EXPECT_EQ(metrics.declared[kSeen].sum[0], before.seen * static_cast<double>(accumulate));
      for (size_t i = 0; i < before.mean.size(); ++i) {
        EXPECT_NEAR(metrics.declared[kMean].sum[i] / static_cast<double>(accumulate),
                    before.mean[i], 1e-5);
      }
      for (int64_t micro = 0; micro < accumulate; ++micro) {
        FillPoints(running.session, step * accumulate + micro);
        expected.Add(MeanOfPoints(running.session));
      }
      ExpectStates(running.session, expected);
    }
    EXPECT_EQ(running.session.used_bytes(), running.session.compiled().plan.arena_bytes);
  }
}

TEST(ModelStates, AreReadByEvaluationsAsTheyAre) {
  Running running(Options(2));
  running.Step(0);
  const std::vector<float> mean = running.session.Read<float>("norm.mean");
  FillPoints(running.session, 100);
  const int64_t targets = kRows;
  const StepMetrics told = running.session.Evaluate({&targets, 1}, kRows)[0];
  EXPECT_EQ(told.declared[kSeen].sum[0], 2);
  EXPECT_EQ(told.declared[kMean].sum[2], mean[2]);
  EXPECT_EQ(running.session.Read<float>("norm.mean"), mean);
  EXPECT_EQ(running.session.Read<float>("norm.seen")[0], 2);
}

// A mean over ranks changes slowly; a counter, and what each rank has for itself, have no averages.
TEST(ModelStates, AreAveragedWithTheWeights) {
  CompileOptions options = Options(2);
  options.update.average = ops::WeightAverageOptions{.decay = 0.75};
  Running running(options);
  Session& session = running.session;
  std::vector<double> average;
  for (int64_t step = 0; step < 3; ++step) {
    running.Step(step, step == 1);
    const std::vector<float> mean = session.Read<float>("norm.mean");
    if (step == 0) average = {mean.begin(), mean.end()};
    for (size_t i = 0; i < mean.size() && step == 2; ++i) average[i] += (mean[i] - average[i]) / 4;
    ExpectNear(session.Read<float>("norm.mean.ema"), average);
    session.ExchangeAverages();
    ExpectNear(session.Read<float>("norm.mean"), average);
    session.ExchangeAverages();
    EXPECT_EQ(session.Read<float>("norm.mean"), mean);
  }
  EXPECT_EQ(session.Read<int32_t>("ema_count")[0], 2);
  EXPECT_FALSE(session.Carries("norm.seen.ema") || session.Carries("norm.own.ema"));
  EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
}

TEST(ModelStates, StayWhereAStepIsSkipped) {
  for (const int64_t accumulate : {1, 3}) {
    Running running(Options(accumulate)), without(Options(accumulate));
    running.Step(0);
    without.Step(0);
    const auto mean = running.session.Read<float>("norm.mean");
    EXPECT_EQ(running.Step(1, /*nan=*/true).skipped, 1);
    EXPECT_EQ(running.session.Read<float>("norm.mean"), mean);
    EXPECT_EQ(running.session.Read<float>("norm.seen")[0], accumulate);
    // And nothing of the skipped step is left behind.
    running.Step(2);
    without.Step(2);
    for (const char* state : {"norm.mean", "norm.own", "norm.seen", "fc.weight"}) {
      EXPECT_EQ(running.session.Read<float>(state), without.session.Read<float>(state)) << state;
    }
  }
}

TEST(ModelStates, AreFloat32InAnyPrecision) {
  for (const graph::DType dtype : {graph::DType::kBFloat16, graph::DType::kFloat16}) {
    CompileOptions options = Options(2);
    options.amp.dtype = dtype;
    if (dtype == graph::DType::kFloat16) options.update.loss_scale = ops::LossScaleOptions{};
    Running running(options);
    Expected expected;
    for (int64_t step = 0; step < 4; ++step) {
      running.Step(step);
      for (int64_t micro = 0; micro < 2; ++micro) {
        FillPoints(running.session, step * 2 + micro);
        expected.Add(MeanOfPoints(running.session));
      }
    }
    ExpectStates(running.session, expected, 0.03);
    const graph::Program& program = *running.session.compiled().programs[0];
    for (const char* name : {"norm.mean", "norm.own.pending", "norm.seen"}) {
      EXPECT_EQ(program.tensor(program.Require(name)).type.dtype, graph::DType::kFloat32);
    }
  }
}

TEST(ModelStates, HaveTheSameBitsUnderAllPolicies) {
  const auto states = [](const checkpointing::Options& checkpointing) {
    CompileOptions options = Options(3);
    options.checkpointing = checkpointing;
    Running running(options);
    std::vector<float> all;
    for (int64_t step = 0; step < 3; ++step) {
      all.push_back(static_cast<float>(running.Step(step).loss));
      for (const char* state : {"norm.mean", "norm.own", "norm.seen"}) {
        const auto values = running.session.Read<float>(state);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  };
  using checkpointing::Options;
  const std::vector<float> kept = states({});
  EXPECT_EQ(states({.policy = Options::Policy::kBlock}), kept);
  EXPECT_EQ(states({.policy = Options::Policy::kSelective,
                    .recompute = {{"centered"}, "checkpointing.recompute"}}),
            kept);
}

TEST(ModelStates, AreWhatASnapshotHolds) {
  Running running(Options(2));
  std::multiset<std::string> names;
  for (const StateTensor& tensor : running.session.State()) names.insert(tensor.name);
  for (const char* state : {"norm.mean", "norm.own", "norm.seen"}) {
    EXPECT_EQ(names.count(state), 1u) << state;
    EXPECT_EQ(names.count(graph::PendingName(state)), 0u) << state;
  }
}

TEST(ModelStates, AreCommittedByTheUpdate) {
  const CompiledStep compiled = Compile(*MakeRemembering(), Options(2));
  std::vector<std::string> commits;
  for (const auto& program : compiled.programs) {
    for (const graph::Node& node : program->nodes()) {
      if (node.op->name != "commit_state") continue;
      EXPECT_EQ(node.phase, graph::Phase::kUpdate);
      EXPECT_EQ(node.inputs.size(), 3u);  // with the gate
      commits.push_back(program->name() + " " + program->tensor(node.outputs[0]).name);
    }
  }
  EXPECT_EQ(commits, (std::vector<std::string>{"train_last norm.mean", "train_last norm.own",
                                               "train_last norm.seen"}));
}

// A model whose update of a state is wrong.
class Wrong final : public models::Model {
 public:
  explicit Wrong(bool unknown) : Model("wrong"), unknown_(unknown) {}

 protected:
  Outputs Forward(models::Layers& g, models::Head) const override {
    const graph::Value state = g.State({.name = "state", .shape = {2}});
    const graph::Value weight = g.Parameter("weight", {3}, {});
    g.UpdateState(unknown_ ? weight : state, [&](graph::Value) { return weight; });
    return {};
  }

 private:
  bool unknown_;
};

TEST(ModelStates, RefuseUpdatesOfAnotherKind) {
  for (const bool unknown : {false, true}) {
    graph::Program program("p");
    graph::Builder builder(program);
    const auto build = [&] {
      Wrong(unknown).Build(builder, {.batch = 1, .sequence = 1}, models::Head::kLoss, true);
    };
    if (unknown) {
      ExpectInternalError(build, {"'weight'", "no state"});
    } else {
      ExpectInternalError(build, {"'state'", "f32[2]", "f32[3]"});
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
