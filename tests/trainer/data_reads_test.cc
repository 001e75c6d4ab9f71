// Which draws of a step's data its runs read, in their order.
#include "trainer/step/data_reads.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::trainer {
namespace {

// As StepFeed fills them: what a micro-step's inputs hold already is not read.
std::vector<int64_t> Expected(const StepPrograms& step) {
  std::vector<int64_t> reads, held(64, -1);
  for (int64_t number = 0; number < step.runs(); ++number) {
    const StepRun run = step.At(number);
    if (!BeginsMicroSteps(run.action)) continue;
    for (int64_t i = 0; i < run.micro_steps; ++i) {
      int64_t& of_slot = held[static_cast<size_t>(run.slot + i)];
      if (of_slot != run.draw + i) reads.push_back(run.draw + i);
      of_slot = run.draw + i;
    }
  }
  return reads;
}

void ExpectReads(const std::vector<StepEntry>& entries, const std::vector<int64_t>& draws) {
  const StepPrograms step = {.entries = entries};
  const DataReads reads(step);
  std::vector<int64_t> all;
  for (int64_t read = 0; read < reads.count(); ++read) all.push_back(reads.DrawOf(read));
  EXPECT_EQ(all, draws);
  EXPECT_EQ(all, Expected(step));
}

TEST(DataReads, AreTheDrawsOfOneObjective) {
  ExpectReads({{.draw = 0}}, {0});
  ExpectReads({{.draw = 0}, {.times = 3, .draw = 1}, {.draw = 4}}, {0, 1, 2, 3, 4});
  ExpectReads({{.micro_steps = 4, .draw = 0}}, {0, 1, 2, 3});
}

// Two networks, the second of which has the data of the first.
TEST(DataReads, BeginAgainForAnObjectiveWithTheSameData) {
  ExpectReads({{.draw = 0}, {.draw = 0}}, {0});
  ExpectReads({{.draw = 0}, {.draw = 1}, {.draw = 0}, {.draw = 1}}, {0, 1, 0, 1});
  ExpectReads(
      {{.draw = 0}, {.times = 2, .draw = 1}, {.draw = 3}, {.draw = 0}, {.times = 3, .draw = 1}},
      {0, 1, 2, 3, 0, 1, 2, 3});
  // All micro-steps in one program; two and two.
  ExpectReads({{.micro_steps = 3, .draw = 0}, {.micro_steps = 3, .draw = 0}}, {0, 1, 2});
  ExpectReads(
      {{.times = 2, .micro_steps = 2, .draw = 0}, {.times = 2, .micro_steps = 2, .draw = 0}},
      {0, 1, 2, 3, 0, 1, 2, 3});
  ExpectReads({{.micro_steps = 2, .draw = 0}, {.times = 2, .micro_steps = 2, .draw = 0}},
              {0, 1, 2, 3});
}

// Backward passes find what their forward passes have read, in their slots.
TEST(DataReads, AreThoseOfForwardPasses) {
  using enum StepAction;
  ExpectReads({{.draw = 0, .action = kForward, .slot = 0},
               {.draw = 1, .action = kForward, .slot = 1},
               {.draw = 0, .action = kBackward, .slot = 0},
               {.draw = 2, .action = kForward, .slot = 0},
               {.draw = 1, .action = kBackward, .slot = 1},
               {.draw = 2, .action = kBackward, .slot = 0},
               {.draw = 2, .action = kUpdate, .slot = 0}},
              {0, 1, 2});
}

// Several updates with data of their own; the other objective has the last one's.
TEST(DataReads, OfSeveralUpdates) {
  ExpectReads({{.draw = 0}, {.draw = 1}, {.draw = 2}, {.draw = 2}}, {0, 1, 2});
  ExpectReads({{.draw = 0}, {.draw = 1}, {.draw = 2}, {.draw = 3}, {.draw = 2}, {.draw = 3}},
              {0, 1, 2, 3, 2, 3});
}

TEST(DataReads, AreNoneWhereNothingIsTrained) { EXPECT_EQ(DataReads(StepPrograms()).count(), 0); }

}  // namespace
}  // namespace plimsoll::trainer
