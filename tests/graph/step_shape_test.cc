#include "graph/step_shape.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/text.h"

namespace plimsoll::graph {
namespace {

Program Read(const std::string& nodes) {
  return ParseProgram(R"(program train
  tensor %x: f32[4] input persistent
  tensor %a: f32[4] parameter persistent
  tensor %b: f32[4] parameter persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
)" + nodes);
}

TEST(StepShape, ProgramsWithoutUpdatesEndWithoutOne) {
  const Program program = Read("");
  EXPECT_EQ(ForwardEnd(program), 1);
  EXPECT_EQ(LastForwardEnd(program), 1);
  EXPECT_EQ(FirstUpdate(program), 1);
  EXPECT_EQ(UpdateTail(program), 1);
}

// As where one loss is computed after the gradients of another, or in a later micro-step.
TEST(StepShape, AProgramOfTwoForwardPassesHasTwoEnds) {
  const Program program = Read(R"(backward
  %dy: f32[4] = scale(%y) {factor=3.0}
forward
  %z: f32[4] = scale(%x) {factor=3.0}
backward
  %dz: f32[4] = scale(%z) {factor=3.0}
update
  %a = scale(%dy) {factor=1.0}
)");
  EXPECT_EQ(ForwardEnd(program), 1);
  EXPECT_EQ(LastForwardEnd(program), 3);
}

TEST(StepShape, UpdatesWithinTheBackwardPassAreNotTheTail) {
  const Program program = Read(R"(update
  %a = scale(%y) {factor=1.0}
backward
  %dy: f32[4] = scale(%y) {factor=3.0}
update
  %b = scale(%dy) {factor=1.0}
)");
  EXPECT_EQ(FirstUpdate(program), 1);
  EXPECT_EQ(UpdateTail(program), 3);
}

TEST(StepShape, ViewsWithinTheUpdateDoNotEndIt) {
  const Program program = Read(R"(update
  %a = scale(%y) {factor=1.0}
backward
  %flat: f32[2,2] view %y+0 = view(%y) {d0=2, d1=2, rank=2}
update
  %b = scale(%y) {factor=1.0}
)");
  EXPECT_EQ(UpdateTail(program), 1);
}

TEST(StepShape, AProgramThatEndsOtherwiseHasNoTail) {
  const Program program = Read(R"(update
  %a = scale(%y) {factor=1.0}
backward
  %dy: f32[4] = scale(%y) {factor=3.0}
)");
  EXPECT_EQ(FirstUpdate(program), 1);
  EXPECT_EQ(UpdateTail(program), 3);
}

}  // namespace
}  // namespace plimsoll::graph
