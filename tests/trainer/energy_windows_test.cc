#include "trainer/record/energy_windows.h"

#include <gtest/gtest.h>

namespace plimsoll::trainer {
namespace {

using Clock = EnergyWindows::Clock;

class Counter final : public runtime::EnergyCounter {
 public:
  std::optional<double> Joules() override { return joules; }
  std::string Counts() const override { return "a test"; }
  std::optional<double> joules = 1000;
};

// Steps of `seconds` that use `joules` each.
struct Steps {
  Counter counter;
  EnergyWindows windows{&counter};
  Clock::time_point now{};

  void Make(int count, double seconds, double joules) {
    for (int i = 0; i < count; ++i) {
      windows.Begin(now);
      now += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
      if (counter.joules) *counter.joules += joules;
      windows.StepDone(now, seconds, 10);
    }
  }
};

TEST(EnergyWindows, AreWholeStepsOfTwoSecondsOrMore) {
  Steps steps;
  steps.Make(3, 0.5, 100);
  EXPECT_FALSE(steps.windows.ended());
  steps.Make(1, 0.6, 140);
  const auto energy = steps.windows.ended();
  ASSERT_TRUE(energy);
  EXPECT_DOUBLE_EQ(energy->joules_per_step, 110);
  EXPECT_DOUBLE_EQ(energy->joules_per_token, 11);
  EXPECT_NEAR(energy->watts, 440 / 2.1, 1e-6);
}

TEST(EnergyWindows, FollowOneAnotherWithoutAGap) {
  Steps steps;
  steps.Make(1, 2, 100);
  steps.windows.Forget();
  EXPECT_FALSE(steps.windows.ended());
  *steps.counter.joules += 50;  // used between two steps
  steps.Make(2, 1, 100);
  ASSERT_TRUE(steps.windows.ended());
  EXPECT_DOUBLE_EQ(steps.windows.ended()->joules_per_step, 125);
}

TEST(EnergyWindows, AreAddedUntilTheyAreForgotten) {
  Steps steps;
  steps.Make(1, 2, 100);
  steps.Make(1, 6, 500);
  ASSERT_TRUE(steps.windows.ended());
  EXPECT_DOUBLE_EQ(steps.windows.ended()->joules_per_step, 300);
  EXPECT_DOUBLE_EQ(steps.windows.ended()->watts, 75);
}

// The host notices the first step's end when half of the second one is over.
TEST(EnergyWindows, AreOfTheStepsTime) {
  Counter counter;
  EnergyWindows windows{&counter};
  const auto at = [](double seconds) {
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  };
  windows.Begin(at(1.5));
  *counter.joules += 150;
  windows.StepDone(at(2), 1, 10);
  *counter.joules += 600;
  windows.StepDone(at(4), 2, 10);
  ASSERT_TRUE(windows.ended());
  EXPECT_DOUBLE_EQ(windows.ended()->watts, 300);
  EXPECT_DOUBLE_EQ(windows.ended()->joules_per_step, 450);
}

TEST(EnergyWindows, LeaveOutWhatIsNoStep) {
  Steps steps;
  steps.Make(3, 0.5, 100);
  steps.windows.Interrupt();
  *steps.counter.joules += 9999;  // an evaluation
  steps.Make(4, 0.5, 100);
  ASSERT_TRUE(steps.windows.ended());
  EXPECT_DOUBLE_EQ(steps.windows.ended()->joules_per_step, 100);
}

TEST(EnergyWindows, WithoutACounterSayNothing) {
  EnergyWindows none(nullptr);
  none.Begin({});
  none.StepDone(Clock::time_point{} + std::chrono::seconds(9), 9, 10);
  EXPECT_FALSE(none.ended());

  Steps steps;
  steps.Make(1, 1, 100);
  steps.counter.joules.reset();  // can no longer be read
  steps.Make(4, 1, 100);
  EXPECT_FALSE(steps.windows.ended());
}

}  // namespace
}  // namespace plimsoll::trainer
