#include <gtest/gtest.h>

#include <string>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::ops {
namespace {

// Ends of blocks: a sum, its norm, and the layer that reads the norm.
const std::string kTensors = R"(program p
  tensor %x: bf16[2,8,32] input persistent
  tensor %h: bf16[2,8,32] input persistent
  tensor %g: bf16[32] parameter persistent
  tensor %b: bf16[32] parameter persistent
  tensor %rng: i32[2] input persistent
  tensor %expected: f32[4] state persistent
  tensor %found: f32[] metric persistent
  tensor %read: bf16[2,8,32] metric persistent
  tensor %a: e4m3[2,8,32] metric persistent
)";

// Expects that the fusion leaves these nodes unchanged.
void ExpectUntouched(const std::string& nodes) {
  ExpectFused(FuseQuantizedNorms, 0, kTensors + nodes, kTensors + nodes);
}

// Whatever else reads the sum, statistics and largest magnitudes reads those of the new nodes,
// which lie where the norms were.
TEST(FuseQuantizedNorms, MakesCodesInPlaceOfNumbers) {
  ExpectFused(FuseQuantizedNorms, 4, kTensors + R"(
forward
  %y: bf16[2,8,32], %rstd: f32[16] = rms_norm(%x, %g) {eps=1e-05} @block.0.norm_1
  %yl: f32[] = largest_magnitude(%y) @block.0.qkv !fp8_products
  %yt: e4m3[32,16], %yq: e4m3[2,8,32], %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e4m3", index=2} @block.0.qkv !fp8_products
  %s: bf16[2,8,32], %z: bf16[2,8,32], %zr: f32[16] = add_rms_norm(%x, %h, %g) {eps=1e-06, unit_offset=true} @block.0.norm_2
  %zl: f32[] = largest_magnitude(%z)
  %zt: e4m3[32,16], _, %zs: f32[], _ = quantize(%z, %zl, _, %expected) {dtype="e4m3", index=3}
  %u: bf16[2,8,32], _, %ur: f32[16] = layer_norm(%s, %g, _) {eps=1e-05}
  %ul: f32[] = largest_magnitude(%u)
  _, %uq: e4m3[2,8,32], %us: f32[], _ = quantize(%u, %ul, _, %expected) {dtype="e4m3", index=0}
  %t: bf16[2,8,32], %v: bf16[2,8,32], %vm: f32[16], %vr: f32[16] = add_layer_norm(%s, %h, %g, %b) {eps=1e-05}
  %vl: f32[] = largest_magnitude(%v)
  %vt: e4m3[32,16], %vq: e4m3[2,8,32], %vs: f32[], _ = quantize(%v, %vl, _, %expected) {dtype="e4m3", index=1}
  %read = mul(%s, %t)
backward
  %found = mul(%yl, %vl)
)",
              kTensors + R"(
forward
  %yt: e4m3[32,16], %yq: e4m3[2,8,32], %ys: f32[], %yl: f32[], _, %rstd: f32[16] = quantize_norm(%x, _, %g, _, %expected) {dtype="e4m3", eps=1e-05, index=2, of="rms_norm"} @block.0.norm_1 !fuse
  %zt: e4m3[32,16], _, %zs: f32[], _, _, %zr: f32[16], %s: bf16[2,8,32] = quantize_norm(%x, %h, %g, _, %expected) {dtype="e4m3", eps=1e-06, index=3, of="add_rms_norm", unit_offset=true} @block.0.norm_2 !fuse
  _, %uq: e4m3[2,8,32], %us: f32[], _, _, %ur: f32[16] = quantize_norm(%s, _, %g, _, %expected) {dtype="e4m3", eps=1e-05, index=0, of="layer_norm"} !fuse
  %vt: e4m3[32,16], %vq: e4m3[2,8,32], %vs: f32[], %vl: f32[], %vm: f32[16], %vr: f32[16], %t: bf16[2,8,32] = quantize_norm(%s, %h, %g, %b, %expected) {dtype="e4m3", eps=1e-05, index=1, of="add_layer_norm"} !fuse
  %read = mul(%s, %t)
backward
  %found = mul(%yl, %vl)
)");
}

// Sums of columns, dropout, the codes of the sum, codes for gradients. What keeps codes of any op from being made with
// it: quantize_activation_fusion_test.cc.
TEST(FuseQuantizedNorms, LeavesOthers) {
  ExpectUntouched(R"(
forward
  %y: bf16[2,8,32], _ = rms_norm(%x, %g) {eps=1e-05}
  %yl: f32[] = largest_magnitude(%y)
  %yt: e4m3[32,16], %a, %ys: f32[], %sums: f32[32] = quantize(%y, %yl, _, %expected) {dtype="e4m3", index=2}
)");
  ExpectUntouched(R"(
forward
  %s: bf16[2,8,32], %y: bf16[2,8,32], _ = add_rms_norm(%x, %h, %g, %rng) {eps=1e-05, key=11, p=0.3}
  %yl: f32[] = largest_magnitude(%y)
  %yt: e4m3[32,16], %a, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e4m3", index=2}
)");
  ExpectUntouched(R"(
forward
  %s: bf16[2,8,32], %y: bf16[2,8,32], _ = add_rms_norm(%x, %h, %g) {eps=1e-05}
  %sl: f32[] = largest_magnitude(%s)
  %st: e4m3[32,16], %a, %ss: f32[], _ = quantize(%s, %sl, _, %expected) {dtype="e4m3", index=2}
  %read = scale(%y) {factor=2.0}
)");
  ExpectUntouched(R"(
forward
  %y: bf16[2,8,32], _ = rms_norm(%x, %g) {eps=1e-05}
  %yl: f32[] = largest_magnitude(%y)
  %yt: e5m2[32,16], _, %ys: f32[], _ = quantize(%y, %yl, _, %expected) {dtype="e5m2", index=2}
)");
}

}  // namespace
}  // namespace plimsoll::ops
