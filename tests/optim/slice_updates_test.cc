// Golden tests of updates in slices, and of the copies of a slice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/verifier.h"
#include "optim/host_parameters.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::optim {
namespace {

using graph::ExpectProgram;
using graph::Parse;
using graph::Program;
using graph::ToText;
using testing::HasSubstr;
using testing::Not;

// A block's matrix of 512 elements, and a head of 1024, whose moments live on the host.
constexpr char kTensors[] = R"(program p
  tensor %x: f32[8,16] input persistent
  tensor %dy: f32[8,64] input persistent
  tensor %a: f32[32,16] parameter persistent
  tensor %h: f32[64,16] parameter persistent
  tensor %a.grad: f32[32,16] gradient persistent of %a as gradient
  tensor %h.grad: f32[64,16] gradient persistent of %h as gradient
  tensor %lr: f32[] input persistent
  tensor %a.momentum: f32[32,16] optimizer_state persistent host
  tensor %h.momentum: f32[64,16] optimizer_state persistent host
)";
constexpr char kSgd[] = "{momentum=0.5, nesterov=false, weight_decay=0.0}";

std::string Whole() {
  return std::string(kTensors) + R"(update
  %a, %a.momentum, _, _ = sgd(%a, %a.grad, %a.momentum, %lr) )" +
         kSgd + R"( @block.0.a
  %h, %h.momentum, _, _ = sgd(%h, %h.grad, %h.momentum, %lr) )" +
         kSgd + R"( @h
)";
}

TEST(SliceUpdates, OfParametersLargerThanABlocks) {
  Program program = Parse(Whole());
  const graph::PassResult result = SliceUpdates().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "the updates of 1 parameter are sliced");
  EXPECT_NO_THROW(graph::Verify(program));
  const std::string text = ToText(program);
  // Eight slices were a quarter of the block's; scales are for 256 elements, and so are slices.
  for (const char* line :
       {"%h.slice: f32[256] parameter persistent view %h+0",
        "%h.momentum.slice.4: f32[256] optimizer_state persistent host view %h.momentum+3072",
        "%h.grad.slice.2 = slice(%h.grad) {d0=256, first=256, rank=1}",
        "%h.slice, %h.momentum.slice, _, _ = sgd(%h.slice, %h.grad.slice, %h.momentum.slice, %lr) "
        "{momentum=0.5, nesterov=false, weight_decay=0.0} @h",
        "%h.slice.4, %h.momentum.slice.4, _, _ = sgd(%h.slice.4, %h.grad.slice.4, "
        "%h.momentum.slice.4, %lr) {first_element=768, momentum=0.5",
        "%a, %a.momentum, _, _ = sgd(%a, %a.grad, %a.momentum, %lr)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("slice.5")));
}

// Each slice of what is on the host comes and goes by itself.
TEST(SliceUpdates, HaveStaysOfTheirOwn) {
  Program program = Parse(Whole());
  SliceUpdates().Run(program);
  EXPECT_TRUE(HostParameters({.state = true}).Run(program).changed);
  EXPECT_NO_THROW(graph::Verify(program));
  const std::string text = ToText(program);
  for (const char* line :
       {"%h.momentum.slice.2.staged: f32[256] optimizer_state = copy_start(%h.momentum.slice.2)",
        "%h.momentum.slice.2 = copy_start(%h.momentum.slice.2.updated)",
        "%h.slice.2, %h.momentum.slice.2.updated: f32[256] optimizer_state, _, _ = sgd(%h.slice.2, "
        "%h.grad.slice.2, %h.momentum.slice.2.loaded, %lr)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(SliceUpdates, LeavesWhatAnAverageReads) {
  const std::string text = Whole() + R"(  %twice: f32[64,16] = scale(%h) {factor=2.0} @h
)";
  Program program = Parse(text);
  EXPECT_FALSE(SliceUpdates().Run(program).changed);
  ExpectProgram(program, text);
}

// On the device nothing has to come.
TEST(SliceUpdates, LeavesWhatIsOnTheDevice) {
  Program program = Parse(Whole());
  for (const char* name : {"a.momentum", "h.momentum"}) {
    program.mutable_tensor(program.Require(name)).place = graph::Place::kDevice;
  }
  EXPECT_FALSE(SliceUpdates().Run(program).changed);
}

}  // namespace
}  // namespace plimsoll::optim
