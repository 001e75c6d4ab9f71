#include "graph/phase_cut.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kWhole = R"(program train
  tensor %x: f32[2,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %w.grad: f32[4,4] gradient persistent of %w as gradient
  tensor %dy: f32[2,4] persistent
forward
  %flat: f32[8] view %x+0 = view(%x) {d0=8, rank=1}
  %h: f32[2,4] = linear(%x, %w, _)
  %v: f32[8] view %h+0 = view(%h) {d0=8, rank=1}
  %g: f32[8] = gelu(%v) {approximate="tanh"}
  %s: f32[8] = scale(%g) {factor=2.0}
  %y: f32[8] persistent = add(%s, %flat)
backward
  %ds: f32[2,4] view %g+0 = view(%g) {d0=2, d1=4, rank=2}
  %d: f32[2,4] = add(%dy, %ds)
  %f: f32[2,4] view %flat+0 = view(%flat) {d0=2, d1=4, rank=2}
  %b: f32[2,4] = add(%d, %f)
  %w.grad, _ = linear_dw(%h, %b, %w.grad, _) {bias=false}
  %n: f32[] = squared_norm(%d)
update
  %w.step: f32[4,4] = scale_by(%w.grad, %lr)
  %w.by: f32[4,4] = scale_by(%w.step, %n)
)";

PhasePrograms Cut(std::string_view text, int64_t slot, bool forward_apart = true) {
  const auto own = [](const Tensor& tensor) {
    return tensor.name == "x" || tensor.name == "y" || tensor.name == "dy";
  };
  return CutPhases(Parse(text), {slot, own, forward_apart});
}

TEST(PhaseCut, CarriesWhatTheBackwardPassReads) {
  const PhasePrograms programs = Cut(kWhole, 2);
  ExpectProgram(programs.forward, R"(program micro_step.2.train.forward
  tensor %micro_step.2.x: f32[2,4] input persistent
  tensor %w: f32[4,4] parameter persistent
forward
  %flat: f32[8] view %micro_step.2.x+0 = view(%micro_step.2.x) {d0=8, rank=1}
  %micro_step.2.h: f32[2,4] persistent = linear(%micro_step.2.x, %w, _)
  %v: f32[8] view %micro_step.2.h+0 = view(%micro_step.2.h) {d0=8, rank=1}
  %micro_step.2.g: f32[8] persistent = gelu(%v) {approximate="tanh"}
  %s: f32[8] = scale(%micro_step.2.g) {factor=2.0}
  %micro_step.2.y: f32[8] persistent = add(%s, %flat)
)");
  // %flat needs no node here: its memory is an input's.
  ExpectProgram(programs.backward, R"(program micro_step.2.train.backward
  tensor %micro_step.2.x: f32[2,4] input persistent
  tensor %w.grad: f32[4,4] gradient persistent of %w as gradient
  tensor %micro_step.2.dy: f32[2,4] persistent
  tensor %flat: f32[8] view %micro_step.2.x+0
  tensor %micro_step.2.h: f32[2,4] persistent
  tensor %micro_step.2.g: f32[8] persistent
backward
  %ds: f32[2,4] view %micro_step.2.g+0 = view(%micro_step.2.g) {d0=2, d1=4, rank=2}
  %d: f32[2,4] = add(%micro_step.2.dy, %ds)
  %f: f32[2,4] view %flat+0 = view(%flat) {d0=2, d1=4, rank=2}
  %b: f32[2,4] = add(%d, %f)
  %w.grad, _ = linear_dw(%micro_step.2.h, %b, %w.grad, _) {bias=false}
  %n: f32[] persistent = squared_norm(%d)
)");
  const std::vector<std::string> kept = {"micro_step.2.g", "micro_step.2.h"};
  EXPECT_EQ(programs.kept, kept);
  ExpectProgram(programs.update, R"(program micro_step.2.train.update
  tensor %lr: f32[] input persistent
  tensor %w.grad: f32[4,4] gradient persistent of %w as gradient
  tensor %n: f32[] persistent
update
  %w.step: f32[4,4] = scale_by(%w.grad, %lr)
  %w.by: f32[4,4] = scale_by(%w.step, %n)
)");
}

TEST(PhaseCut, KeepsViewsOfWhatIsCarried) {
  std::string text(kWhole);
  const std::string_view read = "squared_norm(%d)";
  text.replace(text.find(read), read.size(), "squared_norm(%v)");
  const PhasePrograms programs = Cut(text, 1);
  for (const Program* program : {&programs.forward, &programs.backward}) {
    const Tensor& view = program->tensor(program->Require("v"));
    ASSERT_TRUE(view.alias);
    EXPECT_EQ(view.alias->base, program->Require("micro_step.1.h"));
    EXPECT_NO_THROW(Verify(*program));
  }
}

TEST(PhaseCut, LeavesTheForwardPassOfALastStageWhereItIs) {
  const PhasePrograms programs = Cut(kWhole, 0, /*forward_apart=*/false);
  EXPECT_TRUE(programs.forward.nodes().empty());
  EXPECT_EQ(programs.backward.nodes().size(), 12u);
  EXPECT_FALSE(programs.backward.tensor(programs.backward.Require("h")).persistent);
  EXPECT_EQ(programs.update.nodes().size(), 2u);
  const PhasePrograms of_forward = Cut(std::string(kWhole).substr(0, kWhole.find("backward")), 0);
  EXPECT_TRUE(of_forward.backward.nodes().empty());
  EXPECT_TRUE(of_forward.update.nodes().empty());
}

TEST(PhaseCut, RefusesTransfersBetweenPrograms) {
  const auto why_not = [](std::string_view text) {
    return MessageOf<InternalError>([&] { Cut(text, 0); }).value_or("");
  };
  EXPECT_EQ(
      why_not(R"(program train
  tensor %x: f32[4] input persistent
  tensor %y: f32[4] persistent
forward
  %all: f32[8] = all_gather_start(%x) {axis="data", d0=8, rank=1}
backward
  %done: f32[8] view %all+0 = all_gather_done(%all, %x)
  %z: f32[8] = scale(%done) {factor=2.0}
)"),
      "program 'train' cannot be cut into phases: node 1 (all_gather_done) ends a transfer of "
      "'all' that begins before it");
  EXPECT_EQ(why_not(R"(program train
  tensor %x: f32[4] input persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0} using %scratch: i32[8] workspace
)"),
            "program 'train' cannot be cut into phases: node 0 (scale) has scratch memory already");
}

}  // namespace
}  // namespace plimsoll::graph
