#include <gtest/gtest.h>

#include <string>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::ops {
namespace {

const std::string kTensors = R"(program p
  tensor %x: bf16[16,32] input persistent
  tensor %largest: f32[] input persistent
  tensor %dg: bf16[16,32] input persistent
  tensor %expected: f32[4] state persistent
  tensor %a: e4m3[16,32] metric persistent
  tensor %b: e5m2[16,32] metric persistent
  tensor %sum: bf16[16,32] metric persistent
)";

const std::string kCodes = R"(
forward
  _, %h: e4m3[16,32], %scale: f32[], _ = quantize(%x, %largest, _) {dtype="e4m3"}
)";

// Numbers that something else reads as well are made for it alone.
TEST(FuseDequantized, ActivationsReadCodes) {
  ExpectFused(FuseDequantized, 2, kTensors + kCodes + R"(
  %z: bf16[16,32] = dequantize(%h, %scale) {dtype="bf16"}
  _, %a, %as: f32[], _, _ = quantize_activation(%z, _, _, %expected) {approximate="tanh", dtype="e4m3", index=2, of="gelu"}
  %sum = add(%z, %dg)
backward
  %w: bf16[16,32] = dequantize(%h, %scale) {dtype="bf16"}
  _, %b, %bs: f32[], _, _ = quantize_activation(%w, %dg, _, %expected) {approximate="tanh", dtype="e5m2", index=0, of="gelu_backward"}
)",
              kTensors + kCodes + R"(
  %z: bf16[16,32] = dequantize(%h, %scale) {dtype="bf16"}
  _, %a, %as: f32[], _, _ = quantize_activation(%h, _, _, %expected, %scale) {a_dtype="bf16", approximate="tanh", dtype="e4m3", index=2, of="gelu"}
  %sum = add(%z, %dg)
backward
  _, %b, %bs: f32[], _, _ = quantize_activation(%h, %dg, _, %expected, %scale) {a_dtype="bf16", approximate="tanh", dtype="e5m2", index=0, of="gelu_backward"}
)");
}

// Codes that outlive the program may change between their reader and the activation; e5m2 codes
// are not taken.
TEST(FuseDequantized, LeavesOtherCodes) {
  const std::string kept = kTensors + R"(
  tensor %kept: e4m3[16,32] state persistent
  tensor %kept_scale: f32[] state persistent
forward
  %z: bf16[16,32] = dequantize(%kept, %kept_scale) {dtype="bf16"}
  _, %a, %as: f32[], _, _ = quantize_activation(%z, _, _, %expected) {approximate="tanh", dtype="e4m3", index=2, of="gelu"}
)";
  ExpectFused(FuseDequantized, 0, kept, kept);
  const std::string wide = kTensors + R"(
forward
  _, %h: e5m2[16,32], %scale: f32[], _ = quantize(%x, %largest, _) {dtype="e5m2"}
  %z: bf16[16,32] = dequantize(%h, %scale) {dtype="bf16"}
  _, %a, %as: f32[], _, _ = quantize_activation(%z, _, _, %expected) {approximate="tanh", dtype="e4m3", index=2, of="gelu"}
)";
  ExpectFused(FuseDequantized, 0, wide, wide);
}

}  // namespace
}  // namespace plimsoll::ops
