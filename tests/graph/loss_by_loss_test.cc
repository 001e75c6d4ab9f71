#include <gtest/gtest.h>

#include <string>

#include "graph/autodiff.h"
#include "graph/step_passes.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::graph {
namespace {

// A discriminator %w judges what is real and what is made. %counts moves for both, in this order.
constexpr std::string_view kTwoLosses = R"(program p
  tensor %real: f32[4] input persistent
  tensor %made: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %counts: f32[4] state persistent
  tensor %right: f32[] metric persistent
forward
  %a: f32[4] = mul(%real, %w)
  %counts = add(%counts, %a)
  %b: f32[4] = mul(%made, %w)
  %counts = add(%counts, %b)
  %of_real: f32[] = sum(%a)
  %square: f32[4] = mul(%b, %b)
  %of_made: f32[] = sum(%square)
  %half: f32[] = scale(%of_made) {factor=0.5}
  %loss: f32[] = add(%of_real, %half)
  %right = sum(%b)
)";

Program Differentiated(std::string_view text, Carry carry = Carry::kNone) {
  Program program = Parse(text);
  Autodiff({.loss = "loss", .carry = carry}).Run(program);
  return program;
}

// The sum, whose gradient needs nothing, stays behind what it adds.
TEST(LossByLoss, ComputesALossWhenTheGradientsOfTheOneBeforeAreDone) {
  Program program = Differentiated(kTwoLosses);
  EXPECT_TRUE(LossByLoss("loss").Run(program).changed);
  EXPECT_NO_THROW(Verify(program));
  ExpectProgram(program, R"(program p
  tensor %real: f32[4] input persistent
  tensor %made: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %counts: f32[4] state persistent
  tensor %right: f32[] metric persistent
  tensor %loss: f32[] metric persistent
forward
  %a: f32[4] = mul(%real, %w)
  %counts = add(%counts, %a)
  %of_real: f32[] = sum(%a)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %scale: f32[] = scale(%loss.seed) {factor=0.5} !autodiff
  %fill: f32[4] = fill() {d0=4, dtype="f32", rank=1, value=1.0} !autodiff
  %scale_by: f32[4] = scale_by(%fill, %loss.seed) !autodiff
  %mul: f32[4] gradient = mul(%scale_by, %real) !autodiff
  %fill.2: f32[4] = fill() {d0=4, dtype="f32", rank=1, value=1.0} !autodiff
  %scale_by.2: f32[4] = scale_by(%fill.2, %scale) !autodiff
forward
  %b: f32[4] = mul(%made, %w)
  %counts = add(%counts, %b)
  %square: f32[4] = mul(%b, %b)
  %of_made: f32[] = sum(%square)
  %half: f32[] = scale(%of_made) {factor=0.5}
  %loss = add(%of_real, %half)
  %right = sum(%b)
backward
  %mul.2: f32[4] = mul(%scale_by.2, %b) !autodiff
  %mul.3: f32[4] = mul(%scale_by.2, %b) !autodiff
  %add: f32[4] = add(%mul.2, %mul.3) !autodiff
  %mul.4: f32[4] = mul(%add, %made) !autodiff
  %w.grad: f32[4] gradient of %w as gradient = add(%mul, %mul.4) !autodiff
)");
  EXPECT_FALSE(LossByLoss("loss").Run(program).changed);
}

TEST(LossByLoss, FindsTheLossOfAMicroStep) {
  Program program = Differentiated(kTwoLosses, Carry::kAccumulate);
  EXPECT_TRUE(LossByLoss("loss").Run(program).changed);
  EXPECT_NO_THROW(Verify(program));
}

// What both losses read waits for both.
constexpr std::string_view kSharedTrunk = R"(program p
  tensor %x: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %v: f32[4] parameter persistent
forward
  %trunk: f32[4] = mul(%x, %w)
  %one: f32[4] = mul(%trunk, %v)
  %two: f32[4] = mul(%trunk, %trunk)
  %a: f32[] = sum(%one)
  %b: f32[] = sum(%two)
  %loss: f32[] = add(%a, %b)
)";

TEST(LossByLoss, TakesWhatSeveralReadAtTheEnd) {
  Program program = Differentiated(kSharedTrunk);
  EXPECT_TRUE(LossByLoss("loss").Run(program).changed);
  ExpectProgram(program, R"(program p
  tensor %x: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %v: f32[4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %trunk: f32[4] = mul(%x, %w)
  %one: f32[4] = mul(%trunk, %v)
  %a: f32[] = sum(%one)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[4] = fill() {d0=4, dtype="f32", rank=1, value=1.0} !autodiff
  %scale_by: f32[4] = scale_by(%fill, %loss.seed) !autodiff
  %mul: f32[4] = mul(%scale_by, %v) !autodiff
  %v.grad: f32[4] gradient of %v as gradient = mul(%scale_by, %trunk) !autodiff
  %fill.2: f32[4] = fill() {d0=4, dtype="f32", rank=1, value=1.0} !autodiff
  %scale_by.2: f32[4] = scale_by(%fill.2, %loss.seed) !autodiff
  %mul.3: f32[4] = mul(%scale_by.2, %trunk) !autodiff
  %mul.4: f32[4] = mul(%scale_by.2, %trunk) !autodiff
  %add: f32[4] = add(%mul, %mul.3) !autodiff
  %add.2: f32[4] = add(%add, %mul.4) !autodiff
  %w.grad: f32[4] gradient of %w as gradient = mul(%add.2, %x) !autodiff
forward
  %two: f32[4] = mul(%trunk, %trunk)
  %b: f32[] = sum(%two)
  %loss = add(%a, %b)
)");
}

TEST(LossByLoss, LeavesAloneWhatIsNoSum) {
  Program one = Differentiated(R"(program p
  tensor %x: f32[4] input persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = mul(%x, %w)
  %mean: f32[] = sum(%a)
  %loss: f32[] = scale(%mean) {factor=0.25}
)");
  EXPECT_FALSE(LossByLoss("loss").Run(one).changed);
  EXPECT_FALSE(LossByLoss("none").Run(one).changed);
}

}  // namespace
}  // namespace plimsoll::graph
