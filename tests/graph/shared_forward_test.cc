#include <gtest/gtest.h>

#include <string>

#include "graph/micro_steps.h"
#include "graph/step_passes.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::graph {
namespace {

// An update of %c with what %g makes, and one of %g.
constexpr std::string_view kCritic = R"(program critic
  tensor %noise: f32[4] input persistent
  tensor %g: f32[4] parameter persistent
  tensor %c: f32[4] parameter persistent
forward
  %made: f32[4] = add(%noise, %g) @generator
  %flat: f32[2,2] view %made+0 = view(%made) {d0=2, d1=2, rank=2}
  %said: f32[4] = add(%made, %c) @critic
update
  %c = add(%c, %said)
)";

constexpr std::string_view kGenerator = R"(program generator
  tensor %noise: f32[4] input persistent
  tensor %g: f32[4] parameter persistent
  tensor %c: f32[4] parameter persistent
forward
  %points: f32[4] = add(%noise, %g) @generator
  %square: f32[2,2] view %points+0 = view(%points) {d0=2, d1=2, rank=2}
  %more: f32[2,2] = scale(%square) {factor=2.0}
  %said: f32[4] = add(%points, %c) @critic
backward
  %again: f32[4] = add(%noise, %g) @generator
update
  %g = add(%g, %again)
)";

Program Joined(std::string_view first, std::string_view second) {
  Program program = Parse(first);
  const Program next = Parse(second);
  AppendMicroSteps({&next}, [](const Tensor&) { return false; }).Run(program);
  return program;
}

// %said is made again, as %c has changed, and so is what the backward pass asks for.
TEST(ShareForward, ComputesOnceWhatNoUpdateChanges) {
  Program program = Joined(kCritic, kGenerator);
  EXPECT_TRUE(ShareForward().Run(program).changed);
  ExpectProgram(program, R"(program critic
  tensor %noise: f32[4] input persistent
  tensor %g: f32[4] parameter persistent
  tensor %c: f32[4] parameter persistent
forward
  %made: f32[4] = add(%noise, %g) @generator
  %flat: f32[2,2] view %made+0 = view(%made) {d0=2, d1=2, rank=2}
  %said: f32[4] = add(%made, %c) @critic
update
  %c = add(%c, %said)
forward 1
  %micro_step.1.more: f32[2,2] = scale(%flat) {factor=2.0}
  %micro_step.1.said: f32[4] = add(%made, %c) @critic
backward 1
  %micro_step.1.again: f32[4] = add(%noise, %g) @generator
update 1
  %g = add(%g, %micro_step.1.again)
)");
}

TEST(ShareForward, LeavesWhatAnUpdateHasChanged) {
  Program program = Joined(kGenerator, kGenerator);
  const std::string before = ToText(program);
  EXPECT_FALSE(ShareForward().Run(program).changed);
  EXPECT_EQ(ToText(program), before);
}

// Within one micro-step equal nodes are there on purpose.
TEST(ShareForward, LeavesOneMicroStepAsItIs) {
  Program program = Parse(R"(program p
  tensor %x: f32[4] input persistent
forward
  %a: f32[4] = scale(%x) {factor=2.0}
  %b: f32[4] = scale(%x) {factor=2.0}
  %c: f32[4] = add(%a, %b)
)");
  EXPECT_FALSE(ShareForward().Run(program).changed);
}

TEST(ShareForward, TellsAttributesApart) {
  Program program = Joined(R"(program a
  tensor %x: f32[4] input persistent
forward
  %a: f32[4] = scale(%x) {factor=2.0}
)",
                           R"(program b
  tensor %x: f32[4] input persistent
forward
  %a: f32[4] = scale(%x) {factor=3.0}
)");
  EXPECT_FALSE(ShareForward().Run(program).changed);
}

}  // namespace
}  // namespace plimsoll::graph
