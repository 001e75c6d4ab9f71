#include "trainer/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"

namespace plimsoll::trainer {
namespace {

using config::ScheduleConfig;
using config::ScheduleName;

constexpr double kLr = 1.0;
constexpr int64_t kSteps = 110;

double Rate(ScheduleName name, int64_t step) {
  ScheduleConfig schedule;
  schedule.name = name;
  schedule.warmup = 10;
  schedule.min_lr = 0.1;
  schedule.decay_steps = 20;
  return LearningRate(schedule, kLr, kSteps, step);
}

TEST(LearningRate, WarmUpIsLinearAndNeverZero) {
  for (ScheduleName name : {ScheduleName::kConstant, ScheduleName::kLinear, ScheduleName::kCosine,
                            ScheduleName::kWsd}) {
    EXPECT_DOUBLE_EQ(Rate(name, 0), 1.0 / 11);
    EXPECT_DOUBLE_EQ(Rate(name, 9), 10.0 / 11);
    EXPECT_DOUBLE_EQ(Rate(name, 10), 1.0);
  }
}

TEST(LearningRate, DecaysAsNamed) {
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kConstant, 109), 1.0);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kLinear, 60), 0.55);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kLinear, 110), 0.1);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kCosine, 60), 0.55);
  EXPECT_NEAR(Rate(ScheduleName::kCosine, 35), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kCosine, 110), 0.1);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kWsd, 89), 1.0);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kWsd, 100), 0.55);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kWsd, 110), 0.1);
}

// LinearLR and MultiStepLR, chained (make_schedule_golden.py).
TEST(LearningRate, FallsAtMilestonesAsPyTorchDoes) {
  for (const nlohmann::json& c :
       nlohmann::json::parse(ReadFile("tests/trainer/schedule_golden.json"))) {
    ScheduleConfig schedule;
    schedule.name = ScheduleName::kMultistep;
    schedule.warmup = c["warmup"];
    schedule.milestones = c["milestones"].get<std::vector<double>>();
    schedule.gamma = c["gamma"];
    const std::vector<double> rates = c["rates"];
    ASSERT_FALSE(rates.empty());
    for (size_t step = 0; step < rates.size(); ++step) {
      EXPECT_NEAR(LearningRate(schedule, c["lr"], std::ssize(rates), static_cast<int64_t>(step)),
                  rates[step], 1e-12 * rates[step])
          << c << " step " << step;
    }
  }
}

TEST(LearningRate, StaysAtTheMinimumBeyondTheEnd) {
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kLinear, 500), 0.1);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kCosine, 500), 0.1);
  EXPECT_DOUBLE_EQ(Rate(ScheduleName::kWsd, 500), 0.1);
}

}  // namespace
}  // namespace plimsoll::trainer
