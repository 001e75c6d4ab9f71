// Cases of the pass `recompute` that docs/how/checkpointing.md does not show: chains across blocks,
// views, random ops, and nodes that must not run twice.
#include "checkpointing/recompute.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::checkpointing {
namespace {

using graph::ExpectProgram;
using graph::Parse;
using graph::Program;

Program Recomputed(std::string_view text) {
  Program program = Parse(text);
  EXPECT_TRUE(Recompute().Run(program).changed);
  EXPECT_FALSE(Recompute().Run(program).changed) << "what is tagged has gone";
  return program;
}

// %a is kept, so the chain of %c starts there; the backward pass doesn't read %b, so it is
// recomputed rather than kept. One matrix product serves two uses.
TEST(Recompute, StartsFromTheNearestKeptTensor) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %loss: f32[] metric persistent
  tensor %dy: f32[8,4] input persistent
forward
  %a: f32[8,4] = linear(%x, %w, _)
  %b: f32[8,4] = gelu(%a) {approximate="tanh"}
  %c: f32[8,4] recompute = linear(%b, %w, _)
  %d: f32[8,4] = scale(%c) {factor=2.0}
  %loss = sum(%d)
backward
  %dd: f32[8,4] = scale(%dy) {factor=2.0}
  %dc: f32[8,4] = mul(%c, %dd)
  %db: f32[8,4] = scale(%dc) {factor=2.0}
  %da: f32[8,4] = mul(%c, %db)
  %dx: f32[8,4] = mul(%a, %da)
)");
  const graph::PassResult result = Recompute().Run(program);
  EXPECT_EQ(result.summary, "2 nodes added, activations 256 B → 128 B");
  ExpectProgram(program, R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %loss: f32[] metric persistent
  tensor %dy: f32[8,4] input persistent
forward
  %a: f32[8,4] = linear(%x, %w, _)
  %b: f32[8,4] = gelu(%a) {approximate="tanh"}
  %c: f32[8,4] recompute = linear(%b, %w, _)
  %d: f32[8,4] = scale(%c) {factor=2.0}
  %loss = sum(%d)
backward
  %dd: f32[8,4] = scale(%dy) {factor=2.0}
recompute
  %b.again: f32[8,4] = gelu(%a) {approximate="tanh"} !recompute
  %c.again: f32[8,4] = linear(%b.again, %w, _) !recompute
backward
  %dc: f32[8,4] = mul(%c.again, %dd)
  %db: f32[8,4] = scale(%dc) {factor=2.0}
  %da: f32[8,4] = mul(%c.again, %db)
  %dx: f32[8,4] = mul(%a, %da)
)");
}

// Nothing later reads what the first block gives to the second one, %b and %n. %b, a product, waits
// for the second one's clones; %n is cheaply made of it.
TEST(Recompute, StartsFromWhatAnotherBlockMade) {
  const std::string forward = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %loss: f32[] metric persistent
  tensor %dy: f32[8,4] input persistent

forward
  %a: f32[8,4] = scale(%x) {factor=2.0} @block.0
  %b: f32[8,4] = linear(%a, %w, _) @block.0
  %n: f32[8,4] = scale(%b) {factor=2.0} @block.0
  %c: f32[8,4] = add(%b, %n) @block.1
  %d: f32[8,4] recompute = scale(%c) {factor=2.0} @block.1
  %loss = sum(%d)
backward
  %e: f32[8,4] = scale(%dy) {factor=2.0}
)";
  ExpectProgram(Recomputed(forward + "  %f: f32[8,4] = mul(%d, %e)\n"), forward + R"(
recompute
  %n.again: f32[8,4] = scale(%b) {factor=2.0} @block.0 !recompute
  %c.again: f32[8,4] = add(%b, %n.again) @block.1 !recompute
  %d.again: f32[8,4] = scale(%c.again) {factor=2.0} @block.1 !recompute
backward
  %f: f32[8,4] = mul(%d.again, %e)
)");
}

// %g is cheap and needed twice. Its second clone would keep %a alive longer than any other reader,
// so the first clone is kept instead.
TEST(Recompute, KeepsACheapCloneThatCannotBeHadForNothing) {
  ExpectProgram(Recomputed(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
forward
  %a: f32[8,4] = scale(%x) {factor=2.0}
  %g: f32[8,4] recompute = gelu(%a) {approximate="tanh"}
  %h: f32[8,4] = scale(%g) {factor=2.0}
  %i: f32[8,4] = scale(%h) {factor=2.0}
backward
  %d1: f32[8,4] = mul(%g, %a)
  %d2: f32[8,4] = scale(%d1) {factor=2.0}
  %d3: f32[8,4] = mul(%g, %d2)
)"),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
forward
  %a: f32[8,4] = scale(%x) {factor=2.0}
  %g: f32[8,4] recompute = gelu(%a) {approximate="tanh"}
  %h: f32[8,4] = scale(%g) {factor=2.0}
  %i: f32[8,4] = scale(%h) {factor=2.0}
recompute
  %g.again: f32[8,4] = gelu(%a) {approximate="tanh"} !recompute
backward
  %d1: f32[8,4] = mul(%g.again, %a)
  %d2: f32[8,4] = scale(%d1) {factor=2.0}
  %d3: f32[8,4] = mul(%g.again, %d2)
)");
}

// A view's base is recomputed, then the view; the clone of a random op draws with the same key.
TEST(Recompute, MakesViewsAnewAndDrawsTheSameNumbers) {
  ExpectProgram(Recomputed(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %rng: i32[2] input persistent
forward
  %a: f32[8,4] recompute = dropout(%x, %rng) {key=17, p=0.5}
  %flat: f32[32] view %a+0 = view(%a) {d0=32, rank=1}
  %b: f32[32] = scale(%flat) {factor=2.0}
  %c: f32[32] = scale(%b) {factor=2.0}
backward
  %d: f32[32] = scale(%flat) {factor=2.0}
  %late: f32[4,8] view %a+0 = view(%a) {d0=4, d1=8, rank=2}
  %e: f32[4,8] = scale(%late) {factor=2.0}
)"),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %rng: i32[2] input persistent
forward
  %a: f32[8,4] recompute = dropout(%x, %rng) {key=17, p=0.5}
  %flat: f32[32] view %a+0 = view(%a) {d0=32, rank=1}
  %b: f32[32] = scale(%flat) {factor=2.0}
  %c: f32[32] = scale(%b) {factor=2.0}
recompute
  %a.again: f32[8,4] = dropout(%x, %rng) {key=17, p=0.5} !recompute
  %flat.again: f32[32] view %a.again+0 = view(%a.again) {d0=32, rank=1} !recompute
backward
  %d: f32[32] = scale(%flat.again) {factor=2.0}
recompute
  %late.again: f32[4,8] view %a.again+0 = view(%a.again) {d0=4, d1=8, rank=2} !recompute
backward
  %e: f32[4,8] = scale(%late.again) {factor=2.0}
)");
}

// Codes are made again from the largest magnitude that the forward pass has found.
TEST(Recompute, KeepsScalars) {
  const std::string tensors = R"(program p
  tensor %x: bf16[16,16] input persistent
  tensor %w: e4m3[16,16] input persistent
  tensor %ws: f32[] input persistent
  tensor %y: bf16[16,16] metric persistent
  tensor %dyt: e5m2[16,16] input persistent
  tensor %dys: f32[] input persistent
  tensor %dw: f32[16,16] gradient persistent
)";
  ExpectProgram(Recomputed(tensors + R"(
forward
  %a: bf16[16,16] = gelu(%x) {approximate="tanh"}
  %al: f32[] = largest_magnitude(%a)
  %at: e4m3[16,16] recompute, %aq: e4m3[16,16], %as: f32[], _ = quantize(%a, %al, _) {dtype="e4m3"}
  %y = scaled_linear(%aq, %w, %as, %ws, _) {dtype="bf16", fast=true}
backward
  %dw = scaled_linear(%dyt, %at, %dys, %as, _, %dw, _) {dtype="f32"}
)"),
                tensors + R"(
forward
  %a: bf16[16,16] = gelu(%x) {approximate="tanh"}
  %al: f32[] = largest_magnitude(%a)
  _, %aq: e4m3[16,16], %as: f32[], _ = quantize(%a, %al, _) {dtype="e4m3"}
  %y = scaled_linear(%aq, %w, %as, %ws, _) {dtype="bf16", fast=true}
recompute
  %a.again: bf16[16,16] = gelu(%x) {approximate="tanh"} !recompute
  %at.again: e4m3[16,16], _, _, _ = quantize(%a.again, %al, _) {dtype="e4m3"} !recompute
backward
  %dw = scaled_linear(%dyt, %at.again, %dys, %as, _, %dw, _) {dtype="f32"}
)");
}

// An activation that makes codes is made again for the transposed ones alone.
TEST(Recompute, MakesTransposedCodesOfActivations) {
  const std::string tensors = R"(program p
  tensor %x: bf16[16,32] input persistent
  tensor %w: e4m3[16,16] input persistent
  tensor %ws: f32[] input persistent
  tensor %expected: f32[2] state persistent
  tensor %y: bf16[16,16] metric persistent
  tensor %dyt: e5m2[16,16] input persistent
  tensor %dys: f32[] input persistent
  tensor %dw: f32[16,16] gradient persistent
  tensor %found: f32[1] metric persistent
)";
  ExpectProgram(Recomputed(tensors + R"(
forward
  %at: e4m3[16,16] recompute, %aq: e4m3[16,16], %as: f32[], _, %al: f32[] = quantize_activation(%x, _, _, %expected) {dtype="e4m3", index=0, of="swiglu"}
  %y = scaled_linear(%aq, %w, %as, %ws, _) {dtype="bf16", fast=true}
backward
  %dw = scaled_linear(%dyt, %at, %dys, %as, _, %dw, _) {dtype="f32"}
  %found = stack(%al)
)"),
                tensors + R"(
forward
  _, %aq: e4m3[16,16], %as: f32[], _, %al: f32[] = quantize_activation(%x, _, _, %expected) {dtype="e4m3", index=0, of="swiglu"}
  %y = scaled_linear(%aq, %w, %as, %ws, _) {dtype="bf16", fast=true}
recompute
  %at.again: e4m3[16,16], _, _, _, _ = quantize_activation(%x, _, _, %expected) {dtype="e4m3", index=0, of="swiglu"} !recompute
backward
  %dw = scaled_linear(%dyt, %at.again, %dys, %as, _, %dw, _) {dtype="f32"}
  %found = stack(%al)
)");
}

// The first node of the backward pass reads %c: recomputing it would save nothing.
TEST(Recompute, LeavesAloneWhatIsReadAtOnce) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %c: f32[8,4] recompute = gelu(%x) {approximate="tanh"}
backward
  %d: f32[8,4] = scale(%c) {factor=2.0}
)");
  EXPECT_FALSE(Recompute().Run(program).changed);
}

constexpr std::string_view kChanged = R"(program p
  tensor %x: f32[8,4] state persistent
  tensor %dy: f32[8,4] input persistent
forward
  %a: f32[8,4] recompute = gelu(%x) {approximate="tanh"}
  %b: f32[8,4] = scale(%a) {factor=2.0}
  %c: f32[8,4] = scale(%b) {factor=2.0}
backward
  %x = scale(%x) {factor=2.0}
  %d: f32[8,4] = scale(%a) {factor=2.0}
)";

TEST(Recompute, RefusesToReadWhatHasChanged) {
  Program program = Parse(kChanged);
  ExpectInternalError([&] { Recompute().Run(program); },
                      {"recompute", "node 0 (gelu)", "'x'", "node 3 (scale)"});
}

// The chain of %b contains a node that counts.
TEST(Recompute, RefusesToRepeatALastingEffect) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] state persistent
forward
  %x = scale(%x) {factor=2.0}
  %y: f32[32] view %x+0 = view(%x) {d0=32, rank=1}
  %b: f32[32] recompute = scale(%y) {factor=2.0}
  %c: f32[32] = scale(%b) {factor=2.0}
  %e: f32[32] = scale(%c) {factor=2.0}
backward
  %x = scale(%x) {factor=2.0}
  %d: f32[32] = scale(%b) {factor=2.0}
)");
  ExpectInternalError([&] { Recompute().Run(program); }, {"recompute", "'y'", "has changed it"});
}

TEST(Recompute, ComesBeforeWorkspaces) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] recompute = gelu(%x) {approximate="tanh"} using %work: f32[4] workspace
  %b: f32[8,4] = scale(%a) {factor=2.0}
  %c: f32[8,4] = scale(%b) {factor=2.0}
backward
  %d: f32[8,4] = scale(%a) {factor=2.0}
)");
  ExpectInternalError([&] { Recompute().Run(program); }, {"workspaces come after"});
}

// One clone gives a residual block's result, which the next block's weight gradient reads, and the
// bits that the norm's own gradient reads after it. The result is not made a second time for them.
TEST(Recompute, MakesANormsResultAndItsBitsTogether) {
  constexpr std::string_view kBefore = R"(program p
  tensor %x: f32[8,12] input persistent
  tensor %s: f32[8,12] input persistent
  tensor %mean: f32[1,12] input persistent
  tensor %weight: f32[12] parameter persistent
  tensor %dy: f32[8,12] input persistent
forward
  %y: f32[8,12] recompute, %bits: u8[8,2] recompute = batch_norm(%x, %mean, %mean, %weight, %weight, %s) {eps=0.001, relu=true}
  %z: f32[8,12] = scale(%y) {factor=2.0}
  %loss: f32[] = sum(%z)
backward
  %dz: f32[8,12] = mul(%y, %dy)
  %ds: f32[8,12], %dx: f32[8,12], _, _ = batch_norm_residual_backward(%dz, %bits, %x, %mean, %mean, %weight, _, _, _) {eps=0.001}
)";
  ExpectProgram(Recomputed(kBefore), R"(program p
  tensor %x: f32[8,12] input persistent
  tensor %s: f32[8,12] input persistent
  tensor %mean: f32[1,12] input persistent
  tensor %weight: f32[12] parameter persistent
  tensor %dy: f32[8,12] input persistent
forward
  %y: f32[8,12] recompute, _ = batch_norm(%x, %mean, %mean, %weight, %weight, %s) {eps=0.001, relu=true}
  %z: f32[8,12] = scale(%y) {factor=2.0}
  %loss: f32[] = sum(%z)
recompute
  %y.again: f32[8,12], %bits.again: u8[8,2] = batch_norm(%x, %mean, %mean, %weight, %weight, %s) {eps=0.001, relu=true} !recompute
backward
  %dz: f32[8,12] = mul(%y.again, %dy)
  %ds: f32[8,12], %dx: f32[8,12], _, _ = batch_norm_residual_backward(%dz, %bits.again, %x, %mean, %mean, %weight, _, _, _) {eps=0.001}
)");
}

}  // namespace
}  // namespace plimsoll::checkpointing
