// Golden tests of updates that move into the backward pass.
#include "optim/update_in_backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/graph/expect_program.h"

namespace plimsoll::optim {
namespace {

using graph::ExpectProgram;
using graph::Parse;
using graph::Program;
using testing::HasSubstr;

constexpr char kTensors[] = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
  tensor %bias: f32[4] parameter persistent
  tensor %lr: f32[] input persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %a.m: f32[4,4] optimizer_state persistent
  tensor %a.v: f32[4,4] optimizer_state persistent
)";

// Two layers, of which the first one's weight is read once more by a recomputed node. `update` is
// the rest.
std::string Layers(const std::string& update) {
  return std::string(kTensors) + R"(forward
  %h: f32[8,4] = linear(%x, %a)
backward
  %b.grad: f32[4,4] gradient of %b as gradient, %bias.grad: f32[4] gradient of %bias as gradient = linear_dw(%h, %dy, _, _) {bias=true}
  %dh: f32[8,4] = linear_dx(%dy, %b)
  %a.grad: f32[4,4] gradient of %a as gradient, _ = linear_dw(%x, %dh, _, _) {bias=false}
)" + update;
}

constexpr char kAdamW[] = "{beta1=0.5, beta2=0.5, eps=0.5, weight_decay=0.0}";
constexpr char kSgd[] = "{momentum=0.0, nesterov=false, weight_decay=0.0}";

TEST(UpdateInBackward, MovesUpdatesToTheLastReaderOfTheWeight) {
  Program program = Parse(Layers(std::string(R"(recompute
  %again: f32[8,4] = linear(%x, %a)
backward
  %dx: f32[8,4] = linear_dx(%again, %a)
  %last: f32[8,4] = scale(%dx) {factor=2.0}
update
  %grad_norm = global_norm(%a.grad, %b.grad, %bias.grad)
  %update_count = increment(%update_count)
  %a, %a.m, %a.v, _, _, _ = adamw(%a, %a.grad, %a.m, %a.v, %lr, %update_count) )") +
                                 kAdamW + R"( @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
                                 kSgd + R"( @b
  %bias, _, _, _ = sgd(%bias, %bias.grad, _, %lr) )" +
                                 kSgd + R"( @bias
)"));
  // The bias is too small to move.
  const graph::PassResult result = UpdateInBackward({.least_bytes = 64}).Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "updates moved of 2 gradients, 128 B");
  ExpectProgram(program, std::string(kTensors) + R"(forward
  %h: f32[8,4] = linear(%x, %a)
update
  %update_count = increment(%update_count)
backward
  %b.grad: f32[4,4] gradient of %b as gradient, %bias.grad: f32[4] gradient of %bias as gradient = linear_dw(%h, %dy, _, _) {bias=true}
  %dh: f32[8,4] = linear_dx(%dy, %b)
update
  %b.grad.squares: f64[] = square_sum(%b.grad) @b !update_in_backward
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
                             std::string(kSgd) + R"( @b
backward
  %a.grad: f32[4,4] gradient of %a as gradient, _ = linear_dw(%x, %dh, _, _) {bias=false}
recompute
  %again: f32[8,4] = linear(%x, %a)
backward
  %dx: f32[8,4] = linear_dx(%again, %a)
update
  %a.grad.squares: f64[] = square_sum(%a.grad) @a !update_in_backward
  %a, %a.m, %a.v, _, _, _ = adamw(%a, %a.grad, %a.m, %a.v, %lr, %update_count) )" +
                             kAdamW + R"( @a
backward
  %last: f32[8,4] = scale(%dx) {factor=2.0}
update
  %bias.grad.squares: f64[] = square_sum(%bias.grad) !update_in_backward
  %grad_norm = root_of_sums(%a.grad.squares, %b.grad.squares, %bias.grad.squares) !update_in_backward
  %bias, _, _, _ = sgd(%bias, %bias.grad, _, %lr) )" +
                             kSgd + R"( @bias
)");
}

// Muon's chain of nodes moves as one. The norm of the momentum is no norm of gradients.
TEST(UpdateInBackward, MovesTheUpdateOfMuon) {
  Program program = Parse(Layers(std::string(R"(  %dx: f32[8,4] = linear_dx(%dh, %a)
  %last: f32[8,4] = scale(%dx) {factor=2.0}
update
  %grad_norm = global_norm(%a.grad, %b.grad)
  %b.muon: f32[4,4], %a.m, _ = muon_momentum(%b.grad, %a.m) {momentum=0.5, nesterov=true} @b
  %b.muon.norm: f32[] = global_norm(%b.muon) @b
  %b.muon.x: f32[4,4] = divide_by_norm(%b.muon, %b.muon.norm) {dtype="f32", eps=1e-07} @b
  %b.muon.gram: f32[4,4] = matmul(%b.muon.x, %b.muon.x) {trans_a=false, trans_b=true} @b
  %b, _, _, _ = sgd(%b, %b.muon.gram, _, %lr) )") +
                                 kSgd + R"( @b
)"));
  EXPECT_EQ(UpdateInBackward({.least_bytes = 64}).Run(program).summary,
            "updates moved of 1 gradient, 64 B");
  std::vector<std::string> ops;
  for (const graph::Node& node : program.nodes()) ops.push_back(node.op->name);
  EXPECT_THAT(
      ops, testing::ElementsAre("linear", "linear_dw", "square_sum", "muon_momentum", "global_norm",
                                "divide_by_norm", "matmul", "linear_dx", "sgd", "linear_dw",
                                "linear_dx", "scale", "square_sum", "root_of_sums"));
}

TEST(UpdateInBackward, LeavesAProgramWhoseUpdatesWaitForTheNorm) {
  const std::string text = Layers(std::string(R"(update
  %grad_norm = global_norm(%a.grad, %b.grad)
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0}
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr, %clip_factor) )") +
                                  kSgd + R"( @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr, %clip_factor) )" +
                                  kSgd + R"( @b
)");
  Program program = Parse(text);
  const graph::PassResult result = UpdateInBackward({.least_bytes = 0}).Run(program);
  EXPECT_FALSE(result.changed);
  EXPECT_THAT(result.summary, HasSubstr("wait for the norm of all gradients"));
  ExpectProgram(program, text);
}

// Nor is anything won behind the last gradient, where other nodes follow on it.
TEST(UpdateInBackward, LeavesAProgramThatGoesOnBehindItsGradients) {
  const std::string text = Layers(std::string(R"(  %twice: f32[8,4] = scale(%dh) {factor=2.0}
update
  %grad_norm = global_norm(%a.grad, %b.grad)
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=2.0}
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr, %clip_factor) )") +
                                  kSgd + R"( @a
)");
  Program program = Parse(text);
  EXPECT_FALSE(UpdateInBackward({.least_bytes = 0}).Run(program).changed);
  ExpectProgram(program, text);
}

// A sum over ranks is awaited when the next one begins.
TEST(UpdateInBackward, KeepsTheOrderOfWhatRanksDoTogether) {
  Program program = Parse(
      Layers(std::string(R"(  %sum.b: f32[4,4] gradient = all_reduce_start(%b.grad) {axis="data"}
  %dx: f32[8,4] = linear_dx(%dh, %a)
  %sum.a: f32[4,4] gradient = all_reduce_start(%a.grad) {axis="data"}
  %last: f32[8,4] = scale(%dx) {factor=2.0}
update
  %done.b: f32[4,4] gradient view %sum.b+0 = all_reduce_done(%sum.b)
  %done.a: f32[4,4] gradient view %sum.a+0 = all_reduce_done(%sum.a)
  %b, _, _, _ = sgd(%b, %done.b, _, %lr) )") +
             kSgd + R"(
  %a, _, _, _ = sgd(%a, %done.a, _, %lr) )" +
             kSgd + "\n"));
  EXPECT_EQ(UpdateInBackward({.least_bytes = 0}).Run(program).summary,
            "updates moved of 1 gradient, 64 B");
  std::vector<std::string> ops;
  for (const graph::Node& node : program.nodes()) ops.push_back(node.op->name);
  EXPECT_THAT(
      ops, testing::ElementsAre("linear", "linear_dw", "linear_dx", "linear_dw", "all_reduce_start",
                                "linear_dx", "all_reduce_done", "square_sum", "sgd",
                                "all_reduce_start", "scale", "all_reduce_done", "sgd"));
}

}  // namespace
}  // namespace plimsoll::optim
