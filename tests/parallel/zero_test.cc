// Golden tests of the passes of ZeRO.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "base/axes.h"
#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "graph/block.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "parallel/data_parallel.h"
#include "parallel/zero_parameters.h"
#include "parallel/zero_shards.h"
#include "parallel/zero_state.h"
#include "parallel/zero_weights.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using graph::Carry;
using graph::Parse;
using graph::Program;

// Two layers: a matrix that two ranks divide, and one that is too small to be divided.
constexpr std::string_view kCarried = R"(
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[32,32] parameter persistent
  tensor %b: f32[8,32] parameter persistent
  tensor %loss: f32[] metric persistent merged sum, sum
)";
constexpr std::string_view kUpdated = R"(
  tensor %norm: f32[] metric persistent
  tensor %lr: f32[] input persistent
  tensor %count: i32[] optimizer_state persistent
)";
constexpr std::string_view kForward = R"(
  %h: f32[4,32] = linear(%x, %a, _) @block.0
  %y: f32[4,8] = linear(%h, %b, _) @block.1
  %loss = sum(%y)
)";
constexpr std::string_view kBackward = R"(
backward
  %dy: f32[4,8] = scale(%y) {factor=2.0}
  %b.grad: f32[8,32] gradient of %b as gradient, _ = linear_dw(%h, %dy) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %b) @block.1
  %a.grad: f32[32,32] gradient of %a as gradient, _ = linear_dw(%x, %dh) @block.0
)";
constexpr std::string_view kUpdate = R"(
update
  %norm = global_norm(%a.grad, %b.grad)
  %a, %a.m, %a.v, _, _, _ = adamw(%a, %a.grad, %a.m, %a.v, %lr, %count) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @b
)";

std::string Text(std::initializer_list<std::string_view> pieces) {
  std::string text = "program train";
  for (std::string_view piece : pieces) text += piece;
  return text;
}

std::string Training() {
  return Text({kCarried, kUpdated, R"(
  tensor %a.m: f32[32,32] optimizer_state persistent
  tensor %a.v: f32[32,32] optimizer_state persistent
forward
)",
               kForward, kBackward, kUpdate});
}

TEST(Zero, DividesMatricesWhosePartsAreWholeBlocks) {
  EXPECT_TRUE(IsDivided({32, 32}, 2));
  EXPECT_TRUE(IsDivided({32, 32}, 4));
  EXPECT_FALSE(IsDivided({32, 32}, 8));
  EXPECT_FALSE(IsDivided({1024}, 2));  // a bias
  EXPECT_FALSE(IsDivided({32, 32}, 1));
  EXPECT_EQ(PartOf({32, 32}, 4), graph::Shape{256});
}

// Stage 1. Both layers' gradients fit in one bucket.
TEST(Zero, EachRankUpdatesItsPart) {
  Program program = Parse(Training());
  EXPECT_EQ(ZeroState({.ranks = 2}).Run(program).summary,
            "1 parameter divided, 4.00 KiB of optimizer state instead of 8.00 KiB");
  EXPECT_EQ(ZeroWeights({.ranks = 2}).Run(program).summary,
            "4.00 KiB of weights gathered among ranks, buckets: 1");
  EXPECT_EQ(DataParallel().Run(program).summary,
            "5.00 KiB of gradients summed among ranks, buckets: 1");
  graph::ExpectProgram(program, Text({kCarried, kUpdated, R"(
  tensor %a.m: f32[512] optimizer_state persistent
  tensor %a.v: f32[512] optimizer_state persistent
  tensor %a.own: f32[512] parameter persistent view %a+own
  tensor %loss.reduced: f32[] metric persistent view %loss+0
forward
  %a.own = own_part(%a) {d0=512, rank=1} @a !zero_state
  %a = all_gather_start(%a.own) {axis="data", d0=32, d1=32, rank=2} @a !zero_weights
  %a.whole: f32[32,32] parameter view %a+0 = all_gather_done(%a, %a.own) @a !zero_weights
  %h: f32[4,32] = linear(%x, %a.whole, _) @block.0
  %y: f32[4,8] = linear(%h, %b, _) @block.1
  %loss = sum(%y)
)",
                                      kBackward, R"(
  %a.grad.sum: f32[512] gradient = reduce_scatter_start(%a.grad) {axis="data", d0=512, rank=1} @a !data_parallel
  %b.grad.sum: f32[8,32] gradient = all_reduce_start(%b.grad) {axis="data"} @b !data_parallel
  %loss = all_reduce_start(%loss) {axis="data"} !data_parallel
  %a.grad.reduced: f32[512] gradient view %a.grad.sum+0 = reduce_scatter_done(%a.grad.sum, %a.grad) @a !data_parallel
update
  %b.grad.reduced: f32[8,32] gradient view %b.grad.sum+0 = all_reduce_done(%b.grad.sum) @b !data_parallel
  %loss.reduced = all_reduce_done(%loss) !data_parallel
  %split_norm: f32[] = global_norm(%a.grad.reduced) !zero_state
  %split_norms: f32[2] = all_gather_start(%split_norm) {axis="data", d0=2, rank=1} !zero_state
  %split_norms.2: f32[2] view %split_norms+0 = all_gather_done(%split_norms, %split_norm) !zero_state
  %norm = global_norm(%split_norms.2, %b.grad.reduced)
  %a.own, %a.m, %a.v, _, _, _ = adamw(%a.own, %a.grad.reduced, %a.m, %a.v, %lr, %count) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} @a
  %b, _, _, _ = sgd(%b, %b.grad.reduced, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @b
)"}));
}

// For each rank's part the plan is the same, except for the offset of the part.
TEST(Zero, PlansOfAllRanksAreAlike) {
  Program program = Parse(Training());
  ZeroState({.ranks = 2}).Run(program);
  ZeroWeights({.ranks = 2}).Run(program);
  DataParallel().Run(program);
  const Program* const programs[] = {&program};
  const Mesh mesh({DataAxis(2)});
  const memory::MemoryPlan first = memory::MakePlan(programs, {.position = {mesh, 0}});
  const memory::MemoryPlan second = memory::MakePlan(programs, {.position = {mesh, 1}});
  memory::CheckPlan(programs, first, {.alignment = 64, .ordered = {}});
  memory::CheckPlan(programs, second, {.alignment = 64, .ordered = {}});
  EXPECT_EQ(first.arena_bytes, second.arena_bytes);
  const graph::TensorId own = program.Require("a.own");
  for (size_t id = 0; id < program.tensors().size(); ++id) {
    const int64_t part = static_cast<graph::TensorId>(id) == own ? 2048 : 0;
    EXPECT_EQ(first.programs[0].layout.offsets[id] + part, second.programs[0].layout.offsets[id])
        << program.tensors()[id].name;
  }
}

// 8-bit codes and their scales, and remainders: all state of a weight is divided. Random numbers
// for stochastic rounding are the rank's own.
TEST(Zero, DividesAllStateOfAnUpdate) {
  Program program = Parse(R"(program train
  tensor %w: bf16[32,32] parameter persistent
  tensor %w.grad: f32[32,32] gradient persistent of %w as gradient
  tensor %m: u8[32,32] optimizer_state persistent
  tensor %m.scale: f32[4] optimizer_state persistent
  tensor %v: bf16[32,32] optimizer_state persistent
  tensor %w.remainder: i16[32,32] master persistent
  tensor %lr: f32[] input persistent
  tensor %count: i32[] optimizer_state persistent
  tensor %update_rng: i32[2] input persistent
update
  %w, %m, %v, %w.remainder, %m.scale, _ = adamw(%w, %w.grad, %m, %v, %lr, %count, _, _, %w.remainder, %m.scale, _, %update_rng) {beta1=0.9, beta2=0.95, eps=1e-08, key=3, weight_decay=0.1} @w
)");
  ZeroState({.ranks = 2}).Run(program);
  graph::ExpectProgram(program, R"(program train
  tensor %w: bf16[32,32] parameter persistent
  tensor %w.grad: f32[32,32] gradient persistent of %w as gradient
  tensor %m: u8[512] optimizer_state persistent
  tensor %m.scale: f32[2] optimizer_state persistent
  tensor %v: bf16[512] optimizer_state persistent
  tensor %w.remainder: i16[512] master persistent
  tensor %lr: f32[] input persistent
  tensor %count: i32[] optimizer_state persistent
  tensor %update_rng: i32[2] input persistent
  tensor %w.own: bf16[512] parameter persistent view %w+own
  tensor %rng: i32[2] input persistent
forward
  %w.own = own_part(%w) {d0=512, rank=1} @w !zero_state
update
  %w.grad.own: f32[512] gradient view %w.grad+own = own_part(%w.grad) {d0=512, rank=1} @w !zero_state
  %w.own, %m, %v, %w.remainder, %m.scale, _ = adamw(%w.own, %w.grad.own, %m, %v, %lr, %count, _, _, %w.remainder, %m.scale, _, %rng) {beta1=0.9, beta2=0.95, eps=1e-08, key=3, weight_decay=0.1} @w
)");
}

// Every rank makes the whole of Muon's momentum orthogonal, here two stacked matrices without a
// step of Newton-Schulz, and takes its part of it.
TEST(Zero, GathersTheMomentumOfMuon) {
  const std::string_view carried = R"(
  tensor %w: f32[32,32] parameter persistent
  tensor %w.grad: f32[32,32] gradient persistent of %w as gradient
)";
  const std::string_view others = R"(  tensor %lr: f32[] input persistent
  tensor %update_rng: i32[2] input persistent
)";
  Program program = Parse(
      Text({carried, "  tensor %m: bf16[32,32] optimizer_state persistent\n", others, R"(update
  %w.muon: f32[32,32], %m, _ = muon_momentum(%w.grad, %m, _, _, _, %update_rng) {key=3, momentum=0.5, nesterov=true} @w
  %w.muon.matrix: f32[8,32] view %w.muon+0 = slice(%w.muon) {d0=8, d1=32, first=0, rank=2} @w
  %w.muon.rest: f32[24,32] view %w.muon+1024 = slice(%w.muon) {d0=24, d1=32, first=256, rank=2} @w
  %w.muon.matrices: f32[32,32] = stack_rows(%w.muon.matrix, %w.muon.rest) @w
  %w, _, _, _ = sgd(%w, %w.muon.matrices, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @w
)"}));
  ZeroState({.ranks = 2}).Run(program);
  graph::ExpectProgram(program,
                       Text({carried, "  tensor %m: bf16[512] optimizer_state persistent\n", others,
                             R"(  tensor %w.own: f32[512] parameter persistent view %w+own
  tensor %rng: i32[2] input persistent
forward
  %w.own = own_part(%w) {d0=512, rank=1} @w !zero_state
update
  %w.grad.own: f32[512] gradient view %w.grad+own = own_part(%w.grad) {d0=512, rank=1} @w !zero_state
  %w.muon: f32[512], %m, _ = muon_momentum(%w.grad.own, %m, _, _, _, %rng) {key=3, momentum=0.5, nesterov=true} @w
  %w.muon.gathered: f32[32,32] = all_gather_start(%w.muon) {axis="data", d0=32, d1=32, rank=2} @w !zero_state
  %w.muon.gathered.2: f32[32,32] view %w.muon.gathered+0 = all_gather_done(%w.muon.gathered, %w.muon) @w !zero_state
  %w.muon.matrix.2: f32[8,32] view %w.muon.gathered.2+0 = slice(%w.muon.gathered.2) {d0=8, d1=32, first=0, rank=2} @w !zero_state
  %w.muon.matrix.3: f32[24,32] view %w.muon.gathered.2+1024 = slice(%w.muon.gathered.2) {d0=24, d1=32, first=256, rank=2} @w !zero_state
  %w.muon.matrices: f32[32,32] = stack_rows(%w.muon.matrix.2, %w.muon.matrix.3) @w
  %w.muon.own: f32[512] view %w.muon.matrices+own = own_part(%w.muon.matrices) {d0=512, rank=1} @w !zero_state
  %w.own, _, _, _ = sgd(%w.own, %w.muon.own, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @w
)"}));
}

// Stage 2, the last of several micro-steps.
TEST(Zero, CarriesPartsOfGradients) {
  Program program = Parse(Text({kCarried, R"(
forward
)",
                                kForward, kBackward}));
  ZeroState({.ranks = 2, .carry = Carry::kAccumulate}).Run(program);
  DataParallel().Run(program);
  const std::string_view micro = R"(
backward
  %dy: f32[4,8] = scale(%y) {factor=2.0}
  %b.grad: f32[8,32] gradient of %b as gradient, _ = linear_dw(%h, %dy) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %b) @block.1
  %a.grad.micro: f32[32,32] gradient, _ = linear_dw(%x, %dh) @block.0
  %a.grad.micro.sum: f32[512] gradient = reduce_scatter_start(%a.grad.micro) {axis="data", d0=512, rank=1} @a !data_parallel
  %a.grad.micro.reduced: f32[512] gradient view %a.grad.micro.sum+0 = reduce_scatter_done(%a.grad.micro.sum, %a.grad.micro) @a !data_parallel
)";
  const std::string_view carried = R"(
  tensor %a.grad: f32[512] gradient persistent of %a as gradient
forward
)";
  graph::ExpectProgram(program,
                       Text({kCarried, carried, kForward, micro,
                             "  %a.grad = add(%a.grad, %a.grad.micro.reduced) @a !zero_state"}));

  Program first = Parse(Text({kCarried, R"(
forward
)",
                              kForward, kBackward}));
  ZeroState({.ranks = 2, .carry = Carry::kWrite}).Run(first);
  DataParallel().Run(first);
  graph::ExpectProgram(
      first, Text({kCarried, carried, kForward, micro,
                   "  %a.grad = scale(%a.grad.micro.reduced) {factor=1.0} @a !zero_state"}));
}

// With small buckets a gradient's memory is freed before the gradient after next is sent: of the
// three matrices, the first is done when the third starts.
TEST(Zero, ScatteredGradientsGiveUpTheirMemory) {
  std::string text = R"(program train
  tensor %x: f32[4,32] input persistent
)";
  for (const std::string w : {"a", "b", "c"}) {
    text += "  tensor %" + w + ": f32[32,32] parameter persistent\n";
    text += "  tensor %" + w + ".out: f32[512] gradient persistent\n";
  }
  text += "backward\n";
  for (const std::string w : {"a", "b", "c"}) {
    text += "  %" + w + ".grad: f32[32,32] gradient, _ = linear_dw(%x, %x)\n";
    text += "  %" + w + ".own: f32[512] gradient view %" + w + ".grad+own = own_part(%" + w +
            ".grad) {d0=512, rank=1} @" + w + "\n";
    text += "  %" + w + ".out = scale(%" + w + ".own) {factor=1.0}\n";
  }
  Program program = Parse(text);
  DataParallel({.bucket_bytes = 1}).Run(program);
  std::string ops;
  for (const graph::Node& node : program.nodes()) ops += node.op->name + " " + node.scope + "\n";
  EXPECT_EQ(ops,
            "linear_dw \nreduce_scatter_start a\n"
            "linear_dw \nreduce_scatter_start b\n"
            "linear_dw \nreduce_scatter_done a\nscale \nreduce_scatter_start c\n"
            "reduce_scatter_done b\nscale \nreduce_scatter_done c\nscale \n");
}

// One bucket starts before each node, and none later than its first weight is read.
TEST(Zero, GathersWeightsInBuckets) {
  Program program = Parse(R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[32,32] parameter persistent
  tensor %b: f32[32,32] parameter persistent
  tensor %c: f32[32,32] parameter persistent
  tensor %d: f32[32,32] parameter persistent
forward
  %1: f32[4,32] = linear(%x, %b, _)
  %2: f32[4,32] = linear(%1, %a, _)
  %3: f32[4,32] = linear(%2, %a, _)
  %4: f32[4,32] = linear(%3, %d, _)
  %5: f32[4,32] metric = linear(%4, %c, _)
)");
  ZeroWeights({.ranks = 2, .bucket_bytes = 4096}).Run(program);
  std::string ops;
  for (const graph::Node& node : program.nodes()) {
    if (node.op->name != "own_part") ops += node.op->name + " " + node.scope + "\n";
  }
  EXPECT_EQ(ops,
            "all_gather_start b\nall_gather_done b\nlinear \n"
            "all_gather_start a\nall_gather_done a\nlinear \n"
            "all_gather_start d\nlinear \n"
            "all_gather_start c\nall_gather_done d\nlinear \n"
            "all_gather_done c\nlinear \n");
}

// Stage 3: the whole weight is a temporary, alive in the forward pass and, unless it is gathered
// again, until the backward pass has read it.
TEST(Zero, CarriesPartsOfWeights) {
  Program program = Parse(Training());
  ZeroState({.ranks = 2}).Run(program);
  EXPECT_EQ(ZeroParameters(2).Run(program).summary,
            "1 parameter divided, 2.00 KiB instead of 4.00 KiB");
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[512] parameter persistent
  tensor %b: f32[8,32] parameter persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %norm: f32[] metric persistent
  tensor %lr: f32[] input persistent
  tensor %count: i32[] optimizer_state persistent
  tensor %a.m: f32[512] optimizer_state persistent
  tensor %a.v: f32[512] optimizer_state persistent
forward
  %a.gathered: f32[32,32] = all_gather_start(%a) {axis="data", d0=32, d1=32, rank=2} @a !zero_parameters
  %a.whole: f32[32,32] view %a.gathered+0 = all_gather_done(%a.gathered, %a) @a !zero_parameters
  %h: f32[4,32] = linear(%x, %a.whole, _) @block.0
  %y: f32[4,8] = linear(%h, %b, _) @block.1
  %loss = sum(%y)
backward
  %dy: f32[4,8] = scale(%y) {factor=2.0}
  %b.grad: f32[8,32] gradient of %b as gradient, _ = linear_dw(%h, %dy) @block.1
  %dh: f32[4,32] = linear_dx(%dy, %b) @block.1
  %a.grad: f32[32,32] gradient of %a as gradient, _ = linear_dw(%x, %dh) @block.0
update
  %a.grad.own: f32[512] gradient view %a.grad+own = own_part(%a.grad) {d0=512, rank=1} @a !zero_state
  %split_norm: f32[] = global_norm(%a.grad.own) !zero_state
  %split_norms: f32[2] = all_gather_start(%split_norm) {axis="data", d0=2, rank=1} !zero_state
  %split_norms.2: f32[2] view %split_norms+0 = all_gather_done(%split_norms, %split_norm) !zero_state
  %norm = global_norm(%split_norms.2, %b.grad)
  %a, %a.m, %a.v, _, _, _ = adamw(%a, %a.grad.own, %a.m, %a.v, %lr, %count) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @b
)");
  const std::map<std::string, graph::Shape> divided = {{"a", {32, 32}}};
  EXPECT_EQ(GatheredParameters(program), divided);
}

// The events with the layers they belong to, in order: "gather 0", "wait 0", "linear 0".
std::string Steps(const Program& program) {
  std::string steps;
  for (const graph::Node& node : program.nodes()) {
    const std::string& op = node.op->name;
    const std::string what = op == "all_gather_start"  ? "gather"
                             : op == "all_gather_done" ? "wait"
                                                       : op;
    const std::string_view block = graph::BlockIn(node.scope);
    steps += what + " " + (block.empty() ? "-1" : std::string(block.substr(6))) + ", ";
  }
  return steps;
}

// Three layers: gathering each weight starts when the program waits for the one before, also in the
// backward pass, which gathers again.
TEST(Zero, WeightsStartABlockAhead) {
  std::string text = R"(program train
  tensor %x0: f32[4,32] input persistent
)";
  for (const std::string i : {"0", "1", "2"}) {
    text += "  tensor %block." + i + ".w: f32[32,32] parameter persistent\n";
  }
  text += "forward\n";
  for (int i = 0; i < 3; ++i) {
    text +=
        fmt::format("  %x{}: f32[4,32] = linear(%x{}, %block.{}.w, _) @block.{}\n", i + 1, i, i, i);
  }
  text += "backward\n  %d3: f32[4,32] = scale(%x3) {factor=2.0}\n";
  for (int i = 2; i >= 0; --i) {
    text +=
        fmt::format("  %d{}: f32[4,32] = linear_dx(%d{}, %block.{}.w) @block.{}\n", i, i + 1, i, i);
  }
  Program program = Parse(text);
  ZeroParameters(2).Run(program);
  checkpointing::TagActivations({}).Run(program);
  checkpointing::Recompute().Run(program);
  EXPECT_EQ(Steps(program),
            "gather 0, wait 0, linear 0, gather 1, wait 1, linear 1, gather 2, wait 2, linear 2, "
            "scale -1, gather 2, wait 2, linear_dx 2, gather 1, wait 1, linear_dx 1, "
            "gather 0, wait 0, linear_dx 0, ");
  PrefetchParameters().Run(program);
  EXPECT_EQ(Steps(program),
            "gather 0, gather 1, wait 0, linear 0, gather 2, wait 1, linear 1, wait 2, linear 2, "
            "gather 2, scale -1, gather 1, wait 2, linear_dx 2, gather 0, wait 1, linear_dx 1, "
            "wait 0, linear_dx 0, ");
  EXPECT_NO_THROW(Verify(program));
}

// Two micro-steps read one whole. The backward pass gathers it again.
TEST(Zero, MicroStepsOfABlockReadOneWhole) {
  constexpr std::string_view kTensors = R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[512] parameter persistent
  tensor %y: f32[4,32] metric persistent
  tensor %z: f32[4,32] metric persistent
  tensor %dx: f32[4,32] metric persistent
)";
  constexpr std::string_view kAgain = R"(recompute
  %again: f32[32,32] = all_gather_start(%a) {axis="data", d0=32, d1=32, rank=2} @block.0
  %again.whole: f32[32,32] view %again+0 = all_gather_done(%again, %a) @block.0
backward
  %dx = linear_dx(%y, %again.whole) @block.0
)";
  Program program = Parse(std::string(kTensors) + R"(forward
  %first: f32[32,32] = all_gather_start(%a) {axis="data", d0=32, d1=32, rank=2} @block.0
forward 1
  %second: f32[32,32] = all_gather_start(%a) {axis="data", d0=32, d1=32, rank=2} @block.0
forward
  %first.whole: f32[32,32] view %first+0 = all_gather_done(%first, %a) @block.0
  %y = linear(%x, %first.whole, _) @block.0
forward 1
  %second.whole: f32[32,32] view %second+0 = all_gather_done(%second, %a) @block.0
  %same: f32[32,32] view %second.whole+0 = stop_gradient(%second.whole) @block.0
  %z = linear(%x, %same, _) @block.0
)" + std::string(kAgain));
  EXPECT_EQ(JoinGathers().Run(program).summary, "1 gather left out");
  graph::ExpectProgram(program, std::string(kTensors) + R"(forward
  %first: f32[32,32] = all_gather_start(%a) {axis="data", d0=32, d1=32, rank=2} @block.0
  %first.whole: f32[32,32] view %first+0 = all_gather_done(%first, %a) @block.0
  %y = linear(%x, %first.whole, _) @block.0
forward 1
  %same: f32[32,32] view %first.whole+0 = stop_gradient(%first.whole) @block.0
  %z = linear(%x, %same, _) @block.0
)" + std::string(kAgain));
  EXPECT_FALSE(JoinGathers().Run(program).changed);
}

}  // namespace
}  // namespace plimsoll::parallel
