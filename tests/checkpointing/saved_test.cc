// Which activations are kept for the backward pass.
#include "checkpointing/saved.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/block.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::checkpointing {
namespace {

using graph::Parse;
using graph::Program;

const SavedTensor& Get(const Program& program, const std::vector<SavedTensor>& saved,
                       const std::string& name) {
  for (const SavedTensor& tensor : saved) {
    if (program.tensor(tensor.tensor).name == name) return tensor;
  }
  throw std::logic_error(name + " is not in the saved set");
}

constexpr std::string_view kProgram = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %dy: f32[8,4] input persistent
  tensor %gain: f32[4] parameter persistent
  tensor %counter: i32[] state persistent
forward
  %a: f32[8,4], %a.mean: f32[8], %a.rstd: f32[8] = layer_norm(%x, %gain, _) {eps=1e-05} @block.0
  %b: f32[8,4] = linear(%a, %w, _) @block.0.mlp
  %b.view: f32[32] view %b+0 = view(%b) {d0=32, rank=1} @block.0.mlp
  %c: f32[8,4] = gelu(%b) {approximate="tanh"} @block.1.mlp
  %d: f32[8,4] = scale(%c) {factor=2.0}
backward
  %e: f32[8,4] = gelu_backward(%d, %dy) {approximate="tanh"} !autodiff
  %f: f32[32] = scale(%b.view) {factor=2.0} !autodiff
  %w.grad: f32[4,4] gradient of %w as gradient, _ = linear_dw(%a, %e, _, _) {bias=false} !autodiff
)";

TEST(Saved, IsWhatTheForwardPassWritesAndLaterNodesRead) {
  const Program program = Parse(kProgram);
  EXPECT_EQ(ForwardNodes(program), 5);
  const std::vector<SavedTensor> saved = FindSaved(program);
  ASSERT_EQ(saved.size(), 3u);  // no statistics and no %c: nothing reads them later
  EXPECT_EQ(TotalBytes(saved), 3 * 128);

  const SavedTensor& a = Get(program, saved, "a");
  EXPECT_EQ(a.bytes, 128);
  EXPECT_EQ(a.producer, 0);
  EXPECT_EQ(a.output, 0);
  EXPECT_EQ(a.block, 0);
  EXPECT_EQ(a.forward_uses, (std::vector<int>{1}));
  EXPECT_EQ(a.uses, (std::vector<int>{7}));
  EXPECT_TRUE(a.recomputable);
  EXPECT_FALSE(a.read_at_once);

  // Also counts reads through a view.
  const SavedTensor& b = Get(program, saved, "b");
  EXPECT_EQ(b.forward_uses, (std::vector<int>{2, 3}));
  EXPECT_EQ(b.uses, (std::vector<int>{6}));
  EXPECT_FALSE(b.read_at_once);

  const SavedTensor& d = Get(program, saved, "d");
  EXPECT_EQ(d.block, graph::kNoBlock);
  EXPECT_TRUE(d.read_at_once);
}

// The fused loss runs in the forward phase but produces gradients; the loss itself is carried, so
// its node must not run twice.
TEST(Saved, LeavesGradientsOutAndRunsNoCarriedResultTwice) {
  const Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %table: f32[16,4] parameter persistent
  tensor %targets: i32[8] input persistent
  tensor %weight: f32[] input persistent
  tensor %loss: f32[] metric persistent
forward
  %seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %h: f32[8,4] = scale(%x) {factor=2.0}
  %loss, %dx: f32[8,4], %dtable: f32[16,4] gradient, _ = linear_cross_entropy_train(%h, %table, %targets, %weight, %seed, _) !fuse
backward
  %dh: f32[8,4] = add(%dx, %h) !autodiff
)");
  const std::vector<SavedTensor> saved = FindSaved(program);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(program.tensor(saved[0].tensor).name, "h");
  EXPECT_TRUE(saved[0].read_at_once);

  const Program unfused = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %table: f32[16,4] parameter persistent
  tensor %targets: i32[8] input persistent
  tensor %weight: f32[] input persistent
  tensor %loss: f32[] metric persistent
forward
  %loss, %lse: f32[8] = linear_cross_entropy(%x, %table, %targets, %weight)
backward
  %seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %dx: f32[8,4], _, _ = linear_cross_entropy_backward(%x, %table, %targets, %weight, %lse, %seed, _) !autodiff
)");
  const std::vector<SavedTensor> lse = FindSaved(unfused);
  ASSERT_EQ(lse.size(), 1u);
  EXPECT_FALSE(lse[0].recomputable);
}

// A frozen head has no gradient, and with a loss scale no node makes the first gradient.
TEST(Saved, LeavesOutTheGradientOfALossAlone) {
  const Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %table: f32[16,4] parameter persistent
  tensor %targets: i32[8] input persistent
  tensor %weight: f32[] input persistent
  tensor %loss_scale: f32[] state persistent
  tensor %loss: f32[] metric persistent
forward
  %h: f32[8,4] = scale(%x) {factor=2.0}
  %loss, %dx: f32[8,4], _, _ = linear_cross_entropy_train(%h, %table, %targets, %weight, %loss_scale, _)
  %dx.twice: f32[8,4] = scale(%dx) {factor=2.0}
backward
  %dh: f32[8,4] = add(%dx, %dx.twice)
)");
  EXPECT_TRUE(FindSaved(program).empty());
}

// Scalars are always kept: no policy decides on them.
TEST(Saved, LeavesScalarsOut) {
  const Program program = Parse(R"(program p
  tensor %x: bf16[16,16] input persistent
  tensor %w: e4m3[16,16] input persistent
  tensor %ws: f32[] input persistent
  tensor %y: bf16[16,16] metric persistent
  tensor %dyt: e5m2[16,16] input persistent
  tensor %dys: f32[] input persistent
  tensor %dw: f32[16,16] gradient persistent
forward
  %a: bf16[16,16] = gelu(%x) {approximate="tanh"}
  %al: f32[] = largest_magnitude(%a)
  %at: e4m3[16,16], %aq: e4m3[16,16], %as: f32[], _ = quantize(%a, %al, _) {dtype="e4m3"}
  %y = scaled_linear(%aq, %w, %as, %ws, _) {dtype="bf16", fast=true}
backward
  %dw = scaled_linear(%dyt, %at, %dys, %as, _, %dw, _) {dtype="f32"}
)");
  const std::vector<SavedTensor> saved = FindSaved(program);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(program.tensor(saved[0].tensor).name, "at");
}

TEST(Saved, RefusesATensorThatTwoNodesWrite) {
  Program program = Parse(kProgram);
  program.mutable_nodes()[3].outputs[0] = program.Require("b");
  ExpectInternalError([&] { FindSaved(program); }, {"'b' is written by two nodes"});
}

// What is kept is told by the place of the forward pass.
TEST(Saved, RefusesForwardNodesBehindTheBackwardPass) {
  Program program = Parse(kProgram);
  program.mutable_nodes().back().phase = graph::Phase::kForward;
  ExpectInternalError([&] { FindSaved(program); }, {"a forward node of program 'p' follows"});
}

// Kept bits keep no result: nothing but them waits for the gradient.
TEST(Saved, KeepsBitsWithoutTheirResult) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[8,12] input persistent
  tensor %s: f32[8,12] input persistent
  tensor %mean: f32[1,12] input persistent
  tensor %weight: f32[12] parameter persistent
  tensor %dy: f32[8,12] input persistent
forward
  %y: f32[8,12], %bits: u8[8,2] = batch_norm(%x, %mean, %mean, %weight, %weight, %s) {eps=0.001, relu=true}
  %z: f32[8,12] = scale(%y) {factor=2.0}
  %loss: f32[] = sum(%z)
backward
  %ds: f32[8,12], %dx: f32[8,12], _, _ = batch_norm_residual_backward(%dy, %bits, %x, %mean, %mean, %weight, _, _, _) {eps=0.001}
)";
  const Program program = graph::Parse(kText);
  const std::vector<SavedTensor> saved = FindSaved(program);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(program.tensor(saved[0].tensor).name, "bits");
  EXPECT_EQ(saved[0].bytes, 16);
}

}  // namespace
}  // namespace plimsoll::checkpointing
