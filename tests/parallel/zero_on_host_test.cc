// Golden programs of ranks whose parameters live on the host.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/axes.h"
#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "optim/host_parameters.h"
#include "optim/update_in_backward.h"
#include "parallel/data_parallel.h"
#include "parallel/parts.h"
#include "parallel/zero_parameters.h"
#include "parallel/zero_state.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using graph::Parse;
using graph::Program;

// Two blocks, each with a matrix that two ranks divide.
constexpr std::string_view kTensors = R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[32,32] parameter persistent
  tensor %b: f32[32,32] parameter persistent
  tensor %lr: f32[] input persistent
)";
constexpr std::string_view kForward = R"(forward
  %h: f32[4,32] = linear(%x, %a, _) @block.0
  %y: f32[4,32] = linear(%h, %b, _) @block.1
backward
  %dy: f32[4,32] = scale(%y) {factor=2.0} @block.1
)";
constexpr std::string_view kUpdate = R"(update
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.0.a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.1.b
)";

std::string Text(std::initializer_list<std::string_view> pieces) {
  std::string text;
  for (std::string_view piece : pieces) text += piece;
  return text;
}

void ExpectPlanned(const Program& program) {
  graph::Verify(program);
  const Program* const programs[] = {&program};
  const Mesh mesh({DataAxis(2)});
  const memory::MemoryPlan plan = memory::MakePlan(programs, {.position = {mesh, 0}});
  memory::CheckPlan(programs, plan, {.alignment = 64, .ordered = {}});
}

// A rank's part comes from the host before it is gathered, a block ahead, in both passes, and goes
// when it has been: the whole is there. The update changes the part, which then goes back.
TEST(ZeroOnHost, PartsComeToBeGathered) {
  Program program = Parse(Text({kTensors, kForward, R"(
  %b.grad: f32[32,32] gradient, _ = linear_dw(%h, %dy) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %b) @block.1
  %a.grad: f32[32,32] gradient, _ = linear_dw(%x, %dh) @block.0
  %dx: f32[4,32] metric = linear_dx(%dh, %a) @block.0
)",
                                kUpdate}));
  ZeroState({.ranks = 2}).Run(program);
  ZeroParameters(2).Run(program);
  DataParallel({.bucket_bytes = 1}).Run(program);
  const optim::HostParametersOptions options = {.weights = true, .least_bytes = 0};
  optim::PlaceOnHost(options).Run(program);
  checkpointing::TagActivations({}).Run(program);
  checkpointing::Recompute().Run(program);
  PrefetchParameters().Run(program);
  optim::UpdateInBackward({.least_bytes = 0}).Run(program);
  optim::HostParameters(options).Run(program);
  ExpectPlanned(program);
  EXPECT_EQ(GatheredParameters(program),
            (std::map<std::string, graph::Shape>{{"a", {32, 32}}, {"b", {32, 32}}}));
  graph::ExpectProgram(program, R"()");
}

// A carried gradient stays until ranks have summed it, which ends before the next bucket but one.
TEST(ZeroOnHost, CarriedGradientsAreSummedOnTheWay) {
  Program program = Parse(Text({kTensors, R"(
  tensor %a.grad: f32[32,32] gradient persistent
  tensor %b.grad: f32[32,32] gradient persistent
  tensor %norm: f32[] metric persistent
)",
                                kForward, R"(
  %b.grad, _ = linear_dw(%h, %dy, %b.grad) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %b) @block.1
  %a.grad, _ = linear_dw(%x, %dh, %a.grad) @block.0
update
  %norm = global_norm(%a.grad, %b.grad)
)",
                                kUpdate}));
  DataParallel({.bucket_bytes = 1, .sums = {}, .ranks = 2, .gradients_on_host = true}).Run(program);
  const optim::HostParametersOptions options = {.gradients = true, .least_bytes = 0};
  optim::PlaceOnHost(options).Run(program);
  optim::HostParameters(options).Run(program);
  ExpectPlanned(program);
  graph::ExpectProgram(program, R"()");
}

// With ZeRO 2 and 3 the part is carried: what ranks have summed is added to it.
TEST(ZeroOnHost, CarriedPartsOfGradientsComeAndGo) {
  Program program = Parse(Text({kTensors, kForward, R"(
  %b.grad: f32[32,32] gradient, _ = linear_dw(%h, %dy) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %b) @block.1
  %a.grad: f32[32,32] gradient, _ = linear_dw(%x, %dh) @block.0
  %dx: f32[4,32] metric = linear_dx(%dh, %a) @block.0
)",
                                kUpdate}));
  ZeroState({.ranks = 2, .carry = graph::Carry::kAccumulate}).Run(program);
  ZeroParameters(2).Run(program);
  DataParallel({.bucket_bytes = 1}).Run(program);
  const optim::HostParametersOptions options = {.gradients = true, .least_bytes = 0};
  optim::PlaceOnHost(options).Run(program);
  optim::HostParameters(options).Run(program);
  ExpectPlanned(program);
  graph::ExpectProgram(program, R"()");
}

}  // namespace
}  // namespace plimsoll::parallel
