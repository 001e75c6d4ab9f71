// Averages of weights in whole steps: their values, in every form of storage; that evaluating them
// changes nothing; that skipped steps leave them alone; that their memory is planned.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;

struct Storage {
  std::string name;
  DType dtype = DType::kFloat32;
  bool master_weights = true;
};

TinyRun RunOf(const Storage& storage) {
  TinyRun run;
  run.steps = 4;
  run.lr = 3e-3;
  run.amp.dtype = storage.dtype;
  run.update.master_weights = storage.master_weights;
  if (storage.dtype == DType::kFloat16) run.update.loss_scale = ops::LossScaleOptions{};
  run.update.average = ops::WeightAverageOptions{.decay = 0.75};
  run.executor.poison = true;
  run.executor.check_arena = true;
  return run;
}

template <typename T>
std::vector<T> Values(const TinyResult& result, const std::string& name) {
  const std::vector<std::byte>& bytes = result.state.at(name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Averages : public testing::TestWithParam<Storage> {};

void PrintTo(const Storage& storage, std::ostream* out) { *out << storage.name; }

// The formula, in double, over the weights after one, two and more steps.
TEST_P(Averages, FollowTheWeights) {
  TinyRun run = RunOf(GetParam());
  std::vector<std::vector<double>> expected;
  for (int steps = 1; steps <= 4; ++steps) {
    run.steps = steps;
    const TinyResult result = Train(run);
    if (steps == 1) {
      for (const auto& weight : result.weights) expected.emplace_back(weight.begin(), weight.end());
    }
    const auto model = models::MakeModel(run.spec);
    for (size_t p = 0; p < expected.size(); ++p) {
      const std::vector<float> average =
          Values<float>(result, model->parameters()[p].name + ".ema");
      ASSERT_EQ(average.size(), expected[p].size());
      for (size_t i = 0; i < average.size(); ++i) {
        expected[p][i] += 0.25 * (result.weights[p][i] - expected[p][i]);
        ASSERT_NEAR(average[i], expected[p][i], 1e-6) << model->parameters()[p].name << " " << i;
      }
    }
    EXPECT_EQ(Values<int32_t>(result, "ema_count")[0], steps);
    EXPECT_EQ(result.used_bytes, result.arena_bytes);
  }
}

TEST_P(Averages, AreEvaluatedWithoutAnyEffect) {
  TinyRun run = RunOf(GetParam());
  const TinyResult plain = Train(run);
  run.evaluate = true;
  const TinyResult evaluated = Train(run);
  EXPECT_EQ(evaluated.losses, plain.losses);
  EXPECT_EQ(evaluated.weights, plain.weights);
  EXPECT_EQ(evaluated.state, plain.state);
  ASSERT_EQ(evaluated.evaluations.size(), 8u);
  EXPECT_NEAR(evaluated.evaluations[0], evaluated.evaluations[1], 0.01);  // the first is a copy
  EXPECT_NE(evaluated.evaluations[6], evaluated.evaluations[7]);
  EXPECT_EQ(evaluated.used_bytes, evaluated.arena_bytes);
}

TEST_P(Averages, AreTheSameOnTheHost) {
  for (const int64_t accumulate : {1, 3}) {
    TinyRun run = RunOf(GetParam());
    run.evaluate = true;
    run.accumulate = accumulate;
    run.micro_steps_per_program = accumulate;
    const TinyResult device = Train(run);
    run.state_on_host = true;
    const TinyResult host = Train(run);
    EXPECT_EQ(host.evaluations, device.evaluations);
    EXPECT_EQ(host.weights, device.weights);
    EXPECT_EQ(host.state, device.state);
    EXPECT_EQ(host.used_bytes, host.arena_bytes);
    EXPECT_GT(host.host_arena_bytes, 0);
  }
}

TEST_P(Averages, ChangeNothingElse) {
  TinyRun run = RunOf(GetParam());
  const TinyResult averaged = Train(run);
  run.update.average.reset();
  const TinyResult plain = Train(run);
  EXPECT_EQ(averaged.losses, plain.losses);
  EXPECT_EQ(averaged.weights, plain.weights);
}

INSTANTIATE_TEST_SUITE_P(Storage, Averages,
                         testing::Values(Storage{"Float32"}, Storage{"BFloat16", DType::kBFloat16},
                                         Storage{"BFloat16Alone", DType::kBFloat16, false},
                                         Storage{"Float16", DType::kFloat16}),
                         [](const auto& info) { return info.param.name; });

// Until the scale is low enough, no update is applied, and there are no averages to evaluate.
TEST(SkippedSteps, LeaveAveragesAlone) {
  TinyRun run = RunOf({"Float16", DType::kFloat16});
  run.evaluate = true;
  run.init_loss_scale = 0x1p40;
  run.steps = 3;
  const TinyResult none = Train(run);
  EXPECT_EQ(none.last.skipped, 3);
  EXPECT_EQ(none.evaluations.size(), 3u);
  EXPECT_EQ(Values<int32_t>(none, "ema_count")[0], 0);
  run.steps = 40;
  const TinyResult some = Train(run);
  const auto applied = static_cast<size_t>(40 - some.last.skipped);
  EXPECT_GT(applied, 0u);
  EXPECT_EQ(Values<int32_t>(some, "ema_count")[0], static_cast<int32_t>(applied));
  EXPECT_GE(some.evaluations.size(), 40 + applied);
}

TEST(Averages, OfAdaptersAlone) {
  TinyRun run = RunOf({"Float32"});
  run.lora = {"all-linear"};
  run.evaluate = true;
  const TinyResult result = Train(run);
  EXPECT_NE(result.evaluations[6], result.evaluations[7]);
  for (const auto& [name, bytes] : result.state) {
    EXPECT_TRUE(!name.ends_with(".ema") || name.find("lora") != name.npos) << name;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
