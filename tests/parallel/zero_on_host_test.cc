// Golden programs of ranks whose parameters live on the host.
#include <gtest/gtest.h>

#include <map>
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
#include "parallel/zero_parameters.h"
#include "parallel/zero_shards.h"
#include "parallel/zero_state.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using graph::Parse;
using graph::Program;

// Two blocks, each with a matrix that two ranks divide.
constexpr std::string_view kTensors = R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %block.0.w: f32[32,32] parameter persistent
  tensor %block.1.w: f32[32,32] parameter persistent
  tensor %lr: f32[] input persistent
)";
constexpr std::string_view kForward = R"(forward
  %h: f32[4,32] = linear(%x, %block.0.w, _) @block.0
  %y: f32[4,32] = linear(%h, %block.1.w, _) @block.1
backward
  %dy: f32[4,32] = scale(%y) {factor=2.0} @block.1
)";
constexpr std::string_view kBackward = R"(
  %block.1.w.grad: f32[32,32] gradient of %block.1.w as gradient, _ = linear_dw(%h, %dy) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %block.1.w) @block.1
  %block.0.w.grad: f32[32,32] gradient of %block.0.w as gradient, _ = linear_dw(%x, %dh) @block.0
  %dx: f32[4,32] metric = linear_dx(%dh, %block.0.w) @block.0
)";
constexpr std::string_view kUpdate = R"(update
  %block.0.w, _, _, _ = sgd(%block.0.w, %block.0.w.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.0.w
  %block.1.w, _, _, _ = sgd(%block.1.w, %block.1.w.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.1.w
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
  Program program = Parse(Text({kTensors, kForward, kBackward, kUpdate}));
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
  EXPECT_EQ(GatheredParameters(program), (std::map<std::string, graph::Shape>{
                                             {"block.0.w", {32, 32}}, {"block.1.w", {32, 32}}}));
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %block.0.w: f32[512] parameter persistent host
  tensor %block.1.w: f32[512] parameter persistent host
  tensor %lr: f32[] input persistent
  tensor %block.1.w.stored: f32[512] parameter persistent host view %block.1.w+0
  tensor %block.0.w.stored: f32[512] parameter persistent host view %block.0.w+0
forward
  %block.0.w.staged: f32[512] parameter = copy_start(%block.0.w) @block.0.w !host_parameters
  %block.1.w.staged: f32[512] parameter = copy_start(%block.1.w) @block.1.w !host_parameters
  %block.0.w.loaded: f32[512] parameter view %block.0.w.staged+0 = copy_done(%block.0.w.staged, %block.0.w) @block.0.w !host_parameters
  %block.1.w.loaded: f32[512] parameter view %block.1.w.staged+0 = copy_done(%block.1.w.staged, %block.1.w) @block.1.w !host_parameters
  %block.0.w.gathered: f32[32,32] recompute = all_gather_start(%block.0.w.loaded) {axis="data", d0=32, d1=32, rank=2} @block.0.w !zero_parameters
  %block.1.w.gathered: f32[32,32] recompute = all_gather_start(%block.1.w.loaded) {axis="data", d0=32, d1=32, rank=2} @block.1.w !zero_parameters
  %block.0.w.whole: f32[32,32] view %block.0.w.gathered+0 = all_gather_done(%block.0.w.gathered, %block.0.w.loaded) @block.0.w !zero_parameters
  %h: f32[4,32] = linear(%x, %block.0.w.whole, _) @block.0
  %block.1.w.whole: f32[32,32] view %block.1.w.gathered+0 = all_gather_done(%block.1.w.gathered, %block.1.w.loaded) @block.1.w !zero_parameters
  %block.0.w.staged.2: f32[512] parameter = copy_start(%block.0.w) @block.0.w !host_parameters
  %y: f32[4,32] = linear(%h, %block.1.w.whole, _) @block.1
recompute
  %block.1.w.gathered.again: f32[32,32] = all_gather_start(%block.1.w.loaded) {axis="data", d0=32, d1=32, rank=2} @block.1.w !recompute
backward
  %dy: f32[4,32] = scale(%y) {factor=2.0} @block.1
  %block.1.w.grad: f32[32,32] gradient of %block.1.w as gradient, _ = linear_dw(%h, %dy) @block.1
  %block.1.w.grad.sum: f32[512] gradient = reduce_scatter_start(%block.1.w.grad) {axis="data", d0=512, rank=1} @block.1.w !data_parallel
recompute
  %block.0.w.loaded.2: f32[512] parameter view %block.0.w.staged.2+0 = copy_done(%block.0.w.staged.2, %block.0.w) @block.0.w !host_parameters
  %block.0.w.gathered.again: f32[32,32] = all_gather_start(%block.0.w.loaded.2) {axis="data", d0=32, d1=32, rank=2} @block.0.w !recompute
  %block.1.w.whole.again: f32[32,32] view %block.1.w.gathered.again+0 = all_gather_done(%block.1.w.gathered.again, %block.1.w.loaded) @block.1.w !recompute
backward
  %dh: f32[4,32] = linear_dx(%dy, %block.1.w.whole.again) @block.1
  %block.0.w.grad: f32[32,32] gradient of %block.0.w as gradient, _ = linear_dw(%x, %dh) @block.0
  %block.0.w.grad.sum: f32[512] gradient = reduce_scatter_start(%block.0.w.grad) {axis="data", d0=512, rank=1} @block.0.w !data_parallel
recompute
  %block.0.w.whole.again: f32[32,32] view %block.0.w.gathered.again+0 = all_gather_done(%block.0.w.gathered.again, %block.0.w.loaded.2) @block.0.w !recompute
backward
  %dx: f32[4,32] metric = linear_dx(%dh, %block.0.w.whole.again) @block.0
  %block.1.w.grad.reduced: f32[512] gradient view %block.1.w.grad.sum+0 = reduce_scatter_done(%block.1.w.grad.sum, %block.1.w.grad) @block.1.w !data_parallel
update
  %block.1.w.grad.reduced.squares: f64[] = square_sum(%block.1.w.grad.reduced) @block.1.w !update_in_backward
  %block.1.w.updated: f32[512] parameter, _, _, _ = sgd(%block.1.w.loaded, %block.1.w.grad.reduced, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.1.w
  %block.1.w = copy_start(%block.1.w.updated) @block.1.w !host_parameters
backward
  %block.0.w.grad.reduced: f32[512] gradient view %block.0.w.grad.sum+0 = reduce_scatter_done(%block.0.w.grad.sum, %block.0.w.grad) @block.0.w !data_parallel
update
  %block.0.w.updated: f32[512] parameter, _, _, _ = sgd(%block.0.w.loaded.2, %block.0.w.grad.reduced, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.0.w
  %block.0.w = copy_start(%block.0.w.updated) @block.0.w !host_parameters
  %block.1.w.stored = copy_done(%block.1.w, %block.1.w.updated) @block.1.w !host_parameters
  %block.0.w.stored = copy_done(%block.0.w, %block.0.w.updated) @block.0.w !host_parameters
)");
}

// A carried gradient stays until ranks have summed it, which ends before the next bucket but one.
TEST(ZeroOnHost, CarriedGradientsAreSummedOnTheWay) {
  Program program = Parse(Text({kTensors, R"(
  tensor %block.0.w.grad: f32[32,32] gradient persistent of %block.0.w as gradient
  tensor %block.1.w.grad: f32[32,32] gradient persistent of %block.1.w as gradient
  tensor %norm: f32[] metric persistent
)",
                                kForward, R"(
  %block.1.w.grad, _ = linear_dw(%h, %dy, %block.1.w.grad) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %block.1.w) @block.1
  %block.0.w.grad, _ = linear_dw(%x, %dh, %block.0.w.grad) @block.0
update
  %norm = global_norm(%block.0.w.grad, %block.1.w.grad)
)",
                                kUpdate}));
  DataParallel({.bucket_bytes = 1, .ranks = 2, .gradients_on_host = true}).Run(program);
  const optim::HostParametersOptions options = {.gradients = true, .least_bytes = 0};
  optim::PlaceOnHost(options).Run(program);
  optim::HostParameters(options).Run(program);
  ExpectPlanned(program);
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %block.0.w: f32[32,32] parameter persistent
  tensor %block.1.w: f32[32,32] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %block.0.w.grad: f32[32,32] gradient persistent of %block.0.w as gradient host
  tensor %block.1.w.grad: f32[32,32] gradient persistent of %block.1.w as gradient host
  tensor %norm: f32[] metric persistent
  tensor %block.1.w.grad.stored: f32[32,32] gradient persistent host view %block.1.w.grad+0
forward
  %h: f32[4,32] = linear(%x, %block.0.w, _) @block.0
  %block.1.w.grad.staged: f32[32,32] gradient = copy_start(%block.1.w.grad) @block.1 !host_parameters
  %y: f32[4,32] = linear(%h, %block.1.w, _) @block.1
backward
  %block.0.w.grad.staged: f32[32,32] gradient = copy_start(%block.0.w.grad) @block.0 !host_parameters
  %dy: f32[4,32] = scale(%y) {factor=2.0} @block.1
  %block.1.w.grad.loaded: f32[32,32] gradient view %block.1.w.grad.staged+0 = copy_done(%block.1.w.grad.staged, %block.1.w.grad) @block.1 !host_parameters
  %block.1.w.grad.updated: f32[32,32] gradient, _ = linear_dw(%h, %dy, %block.1.w.grad.loaded) @block.1
  %block.1.w.grad.updated.2: f32[32,32] gradient = all_reduce_start(%block.1.w.grad.updated) {axis="data"} @block.1.w !data_parallel
  %dh: f32[4,32] = linear_dx(%dy, %block.1.w) @block.1
  %block.0.w.grad.loaded: f32[32,32] gradient view %block.0.w.grad.staged+0 = copy_done(%block.0.w.grad.staged, %block.0.w.grad) @block.0 !host_parameters
  %block.0.w.grad.updated: f32[32,32] gradient, _ = linear_dw(%x, %dh, %block.0.w.grad.loaded) @block.0
  %block.0.w.grad.updated.2: f32[32,32] gradient = all_reduce_start(%block.0.w.grad.updated) {axis="data"} @block.0.w !data_parallel
  %block.1.w.grad.reduced.loaded: f32[32,32] gradient view %block.1.w.grad.updated.2+0 = all_reduce_done(%block.1.w.grad.updated.2) @block.1.w !data_parallel
  %block.1.w.grad.reduced.squares: f64[] = square_sum(%block.1.w.grad.reduced.loaded) @block.1.w !host_parameters
  %block.1.w.grad = copy_start(%block.1.w.grad.updated.2) @block.1 !host_parameters
  %block.0.w.grad.reduced.loaded: f32[32,32] gradient view %block.0.w.grad.updated.2+0 = all_reduce_done(%block.0.w.grad.updated.2) @block.0.w !data_parallel
  %block.0.w.grad.reduced.squares: f64[] = square_sum(%block.0.w.grad.reduced.loaded) @block.0.w !host_parameters
update
  %norm = root_of_sums(%block.0.w.grad.reduced.squares, %block.1.w.grad.reduced.squares) !host_parameters
  %block.0.w, _, _, _ = sgd(%block.0.w, %block.0.w.grad.reduced.loaded, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.0.w
backward
  %block.1.w.grad.stored = copy_done(%block.1.w.grad, %block.1.w.grad.updated.2) @block.1 !host_parameters
update
  %block.1.w.grad.staged.2: f32[32,32] gradient = copy_start(%block.1.w.grad) @block.1.w !host_parameters
  %block.1.w.grad.loaded.2: f32[32,32] gradient view %block.1.w.grad.staged.2+0 = copy_done(%block.1.w.grad.staged.2, %block.1.w.grad) @block.1.w !host_parameters
  %block.1.w, _, _, _ = sgd(%block.1.w, %block.1.w.grad.loaded.2, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.1.w
)");
}

// With ZeRO 2 and 3 the part is carried: what ranks have summed is added to it.
TEST(ZeroOnHost, CarriedPartsOfGradientsComeAndGo) {
  Program program = Parse(Text({kTensors, kForward, kBackward, kUpdate}));
  ZeroState({.ranks = 2, .carry = graph::Carry::kAccumulate}).Run(program);
  ZeroParameters(2).Run(program);
  DataParallel({.bucket_bytes = 1}).Run(program);
  const optim::HostParametersOptions options = {.gradients = true, .least_bytes = 0};
  optim::PlaceOnHost(options).Run(program);
  optim::HostParameters(options).Run(program);
  ExpectPlanned(program);
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %block.0.w: f32[512] parameter persistent
  tensor %block.1.w: f32[512] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %block.1.w.grad: f32[512] gradient persistent of %block.1.w as gradient host
  tensor %block.0.w.grad: f32[512] gradient persistent of %block.0.w as gradient host
forward
  %block.0.w.gathered: f32[32,32] = all_gather_start(%block.0.w) {axis="data", d0=32, d1=32, rank=2} @block.0.w !zero_parameters
  %block.0.w.whole: f32[32,32] view %block.0.w.gathered+0 = all_gather_done(%block.0.w.gathered, %block.0.w) @block.0.w !zero_parameters
  %h: f32[4,32] = linear(%x, %block.0.w.whole, _) @block.0
  %block.1.w.gathered: f32[32,32] = all_gather_start(%block.1.w) {axis="data", d0=32, d1=32, rank=2} @block.1.w !zero_parameters
  %block.1.w.whole: f32[32,32] view %block.1.w.gathered+0 = all_gather_done(%block.1.w.gathered, %block.1.w) @block.1.w !zero_parameters
  %y: f32[4,32] = linear(%h, %block.1.w.whole, _) @block.1
backward
  %block.1.w.grad.staged: f32[512] gradient = copy_start(%block.1.w.grad) @block.1.w !host_parameters
  %block.0.w.grad.staged: f32[512] gradient = copy_start(%block.0.w.grad) @block.0.w !host_parameters
  %dy: f32[4,32] = scale(%y) {factor=2.0} @block.1
  %block.1.w.grad.micro: f32[32,32] gradient, _ = linear_dw(%h, %dy) @block.1
  %block.1.w.grad.micro.sum: f32[512] gradient = reduce_scatter_start(%block.1.w.grad.micro) {axis="data", d0=512, rank=1} @block.1.w !data_parallel
  %dh: f32[4,32] = linear_dx(%dy, %block.1.w.whole) @block.1
  %block.0.w.grad.micro: f32[32,32] gradient, _ = linear_dw(%x, %dh) @block.0
  %block.0.w.grad.micro.sum: f32[512] gradient = reduce_scatter_start(%block.0.w.grad.micro) {axis="data", d0=512, rank=1} @block.0.w !data_parallel
  %dx: f32[4,32] metric = linear_dx(%dh, %block.0.w.whole) @block.0
  %block.1.w.grad.micro.reduced: f32[512] gradient view %block.1.w.grad.micro.sum+0 = reduce_scatter_done(%block.1.w.grad.micro.sum, %block.1.w.grad.micro) @block.1.w !data_parallel
  %block.1.w.grad.loaded: f32[512] gradient view %block.1.w.grad.staged+0 = copy_done(%block.1.w.grad.staged, %block.1.w.grad) @block.1.w !host_parameters
  %block.1.w.grad.updated: f32[512] gradient = add(%block.1.w.grad.loaded, %block.1.w.grad.micro.reduced) @block.1.w !zero_state
  %block.0.w.grad.micro.reduced: f32[512] gradient view %block.0.w.grad.micro.sum+0 = reduce_scatter_done(%block.0.w.grad.micro.sum, %block.0.w.grad.micro) @block.0.w !data_parallel
  %block.0.w.grad.loaded: f32[512] gradient view %block.0.w.grad.staged+0 = copy_done(%block.0.w.grad.staged, %block.0.w.grad) @block.0.w !host_parameters
  %block.0.w.grad.updated: f32[512] gradient = add(%block.0.w.grad.loaded, %block.0.w.grad.micro.reduced) @block.0.w !zero_state
update
  %block.0.w, _, _, _ = sgd(%block.0.w, %block.0.w.grad.updated, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.0.w
  %block.1.w, _, _, _ = sgd(%block.1.w, %block.1.w.grad.updated, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.1.w
)");
}

}  // namespace
}  // namespace plimsoll::parallel
