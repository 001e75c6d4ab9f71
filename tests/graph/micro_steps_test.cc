#include "graph/micro_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kFirst = R"(program train_first
  tensor %x: f32[4] input persistent
  tensor %weight: f32[] input persistent
  tensor %g: f32[4] gradient persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
backward
  %g = scale_by(%y, %weight)
)";

constexpr std::string_view kLast = R"(program train_last
  tensor %x: f32[4] input persistent
  tensor %weight: f32[] input persistent
  tensor %g: f32[4] gradient persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
  %flat: f32[2,2] view %y+0 = view(%y) {d0=2, d1=2, rank=2}
backward
  %d: f32[4] = scale_by(%y, %weight) @block.0 !autodiff using %scratch: i32[8] workspace
  %g = add(%g, %d)
update
  %u: f32[4] = scale(%g) {factor=-1.0}
)";

bool IsX(const Tensor& tensor) { return tensor.name == "x"; }

Program Joined(std::string_view next, int times) {
  Program program = Parse(kFirst);
  const Program appended = Parse(next);
  AppendMicroSteps pass(std::vector<const Program*>(static_cast<size_t>(times), &appended), IsX);
  EXPECT_EQ(pass.Run(program).changed, times > 0);
  return program;
}

TEST(MicroSteps, ShareWhatIsCarriedAndOwnTheRest) {
  ExpectProgram(Joined(kLast, 1), R"(program train_first
  tensor %x: f32[4] input persistent
  tensor %weight: f32[] input persistent
  tensor %g: f32[4] gradient persistent
  tensor %micro_step.1.x: f32[4] input persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
backward
  %g = scale_by(%y, %weight)
forward 1
  %micro_step.1.y: f32[4] = scale(%micro_step.1.x) {factor=2.0}
  %micro_step.1.flat: f32[2,2] view %micro_step.1.y+0 = view(%micro_step.1.y) {d0=2, d1=2, rank=2}
backward 1
  %micro_step.1.d: f32[4] = scale_by(%micro_step.1.y, %weight) @block.0 !autodiff using %micro_step.1.scratch: i32[8] workspace
  %g = add(%g, %micro_step.1.d)
update 1
  %micro_step.1.u: f32[4] = scale(%g) {factor=-1.0}
)");
}

TEST(MicroSteps, AreNumberedOneAfterAnother) {
  const Program program = Joined(kLast, 3);
  EXPECT_EQ(program.nodes().back().micro_step, 3);
  EXPECT_NE(program.Find("micro_step.2.x"), kNoTensor);
  EXPECT_EQ(ToText(ParseProgram(ToText(program))), ToText(program));
  ExpectProgram(Joined(kLast, 0), kFirst);
}

// As ZeRO's parts of weights are: views that only the last micro-step carries.
TEST(MicroSteps, CarryAViewThatALaterOneCarries) {
  Program program = Parse(R"(program first
  tensor %w: f32[8] parameter persistent
forward
  %w.own: f32[4] parameter view %w+own = own_part(%w) {d0=4, rank=1}
)");
  EXPECT_FALSE(program.tensor(program.Require("w.own")).persistent);
  const Program next = Parse(R"(program next
  tensor %w: f32[8] parameter persistent
  tensor %w.own: f32[4] parameter persistent view %w+own
update
  %w.own = scale(%w.own) {factor=2.0}
)");
  AppendMicroSteps({&next}, IsX).Run(program);
  EXPECT_TRUE(program.tensor(program.Require("w.own")).persistent);
  EXPECT_EQ(program.nodes().back().inputs[0], program.Require("w.own"));
}

TEST(MicroSteps, RefuseAnotherTensorOfACarriedName) {
  std::string other(kLast);
  other.replace(other.find("gradient persistent"), 8, "metric");
  EXPECT_NE(MessageOf<InternalError>([&] { Joined(other, 1); })
                .value_or("")
                .find("micro-step 1 of program 'train_first' carries another 'g'"),
            std::string::npos);
}

TEST(MicroSteps, NamesTellTheNumber) {
  EXPECT_EQ(OfMicroStep(0, "critic.rng"), "critic.rng");
  EXPECT_EQ(OfMicroStep(12, "critic.rng"), "micro_step.12.critic.rng");
  for (const int64_t number : {0, 1, 12}) {
    const std::string name = OfMicroStep(number, "critic.rng");
    EXPECT_EQ(ParseMicroStepName(name).number, number);
    EXPECT_EQ(ParseMicroStepName(name).name, "critic.rng");
  }
  for (const std::string name : {"micro_step", "micro_step.", "micro_step.3", "micro_step.x.y"}) {
    EXPECT_EQ(ParseMicroStepName(name).number, 0);
    EXPECT_EQ(ParseMicroStepName(name).name, name);
  }
}

}  // namespace
}  // namespace plimsoll::graph
