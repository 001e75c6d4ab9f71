#include <gtest/gtest.h>

#include <string>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::ops {
namespace {

// The middle of a block: gate_up → swiglu → linear, and of another one with gelu.
const std::string kTensors = R"(program p
  tensor %h: bf16[2,8,32] input persistent
  tensor %x: bf16[16,32] input persistent
  tensor %dy: bf16[2,8,16] input persistent
  tensor %dg: bf16[16,32] input persistent
  tensor %expected: f32[4] state persistent
  tensor %found: f32[] metric persistent
  tensor %bias: f32[32] gradient persistent
  tensor %a: e4m3[2,8,16] metric persistent
  tensor %b: e5m2[2,8,32] metric persistent
  tensor %c: e5m2[16,32] metric persistent
)";

// Expects that the fusion leaves these nodes unchanged.
void ExpectUntouched(const std::string& nodes) {
  ExpectFused(FuseQuantizedActivations, 0, kTensors + nodes, kTensors + nodes);
}

// Whatever else reads largest magnitudes reads those of the new nodes.
TEST(FuseQuantizedActivations, MakesCodesInPlaceOfNumbers) {
  ExpectFused(FuseQuantizedActivations, 3, kTensors + R"(
forward
  %y: bf16[2,8,16] = swiglu(%h) @block.0.mlp
  %yl: f32[] = largest_magnitude(%y) @block.0.mlp.down !fp8_products
  %yt: e4m3[16,16], %a, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e4m3", index=2} @block.0.mlp.down !fp8_products
backward
  %dh: bf16[2,8,32] = swiglu_backward(%h, %dy) @block.0.mlp !autodiff
  %dhl: f32[] = largest_magnitude(%dh) @block.0.mlp.up !fp8_products
  %dht: e5m2[32,16], %b, %dhs: f32[], _ = quantize(%dh, %dhl, _, %expected) {dtype="e5m2", index=3} @block.0.mlp.up !fp8_products
  %dx: bf16[16,32] = gelu_backward(%x, %dg) {approximate="tanh"} @block.1 !autodiff
  %dxl: f32[] = largest_magnitude(%dx) @block.1 !fp8_products
  _, %c, %dxs: f32[], %bias = quantize(%dx, %dxl, %bias, %expected) {dtype="e5m2", index=0} @block.1 !fp8_products
  %found = mul(%yl, %dhl)
)",
              kTensors + R"(
forward
  %yt: e4m3[16,16], %a, %ys: f32[], _, %yl: f32[] = quantize_activation(%h, _, _, %expected) {dtype="e4m3", index=2, of="swiglu"} @block.0.mlp.down !fuse
backward
  %dht: e5m2[32,16], %b, %dhs: f32[], _, %dhl: f32[] = quantize_activation(%h, %dy, _, %expected) {dtype="e5m2", index=3, of="swiglu_backward"} @block.0.mlp.up !fuse
  _, %c, %dxs: f32[], %bias, _ = quantize_activation(%x, %dg, %bias, %expected) {approximate="tanh", dtype="e5m2", index=0, of="gelu_backward"} @block.1 !fuse
  %found = mul(%yl, %dhl)
)");
}

// Nodes in between see what they saw before, also those that change what the activation reads.
TEST(FuseQuantizedActivations, MovesTheCodesUp) {
  ExpectFused(FuseQuantizedActivations, 1, kTensors + R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %x = scale(%dg) {factor=2.0}
  %yl: f32[] = largest_magnitude(%y)
  %found = scale(%yl) {factor=2.0}
  _, %c, %ys: f32[], %bias = quantize(%y, %yl, %bias, %expected) {dtype="e5m2", index=2}
)",
              kTensors + R"(
forward
  _, %c, %ys: f32[], %bias, %yl: f32[] = quantize_activation(%x, _, %bias, %expected) {approximate="none", dtype="e5m2", index=2, of="gelu"} !fuse
  %x = scale(%dg) {factor=2.0}
  %found = scale(%yl) {factor=2.0}
)");
}

TEST(FuseQuantizedActivations, LeavesCodesThatCannotBeMadeEarlier) {
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%y)
  %expected = scale(%expected) {factor=2.0}
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
  // What sums are added to changes.
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%y)
  %bias = scale(%bias) {factor=2.0}
  _, %c, %ys: f32[], %sums: f32[32] = quantize(%y, %yl, %bias, %expected) {dtype="e5m2", index=2}
)");
  // The codes that were there before are read.
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%y)
  %before: e5m2[2,8,32] view %c+0 = view(%c) {d0=2, d1=8, d2=32, rank=3}
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
}

TEST(FuseQuantizedActivations, LeavesWhatAnotherNodeReads) {
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%y)
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
backward
  %more: bf16[16,32] = scale(%y) {factor=2.0}
)");
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %rows: bf16[2,8,32] view %y+0 = view(%y) {d0=2, d1=8, d2=32, rank=3}
  %yl: f32[] = largest_magnitude(%y)
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
  // Two kinds of codes.
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%y)
  %yt: e4m3[32,16], _, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e4m3", index=2}
  _, %c, %zs: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
}

TEST(FuseQuantizedActivations, LeavesWhatOutlivesTheProgram) {
  ExpectUntouched(R"(
forward
  %dg = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%dg)
  _, %c, %ys: f32[], _ = quantize(%dg, %yl, _, %expected) {dtype="e5m2", index=2}
)");
}

// Without a scale from earlier steps the largest magnitude must be known first.
TEST(FuseQuantizedActivations, LeavesCurrentScales) {
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%y)
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _) {dtype="e5m2"}
)");
}

TEST(FuseQuantizedActivations, LeavesOtherActivationsAndPhases) {
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = silu(%x)
  %yl: f32[] = largest_magnitude(%y)
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
backward
  %yl: f32[] = largest_magnitude(%y)
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
}

// A magnitude of another tensor.
TEST(FuseQuantizedActivations, LeavesScalesOfOthers) {
  ExpectUntouched(R"(
forward
  %y: bf16[16,32] = gelu(%x) {approximate="none"}
  %yl: f32[] = largest_magnitude(%x)
  _, %c, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
}

}  // namespace
}  // namespace plimsoll::ops
