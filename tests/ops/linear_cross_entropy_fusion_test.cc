#include <gtest/gtest.h>

#include <string>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::ops {
namespace {

using graph::Parse;
using graph::Program;

const std::string kTensors = R"(program p
  tensor %x: f32[6,4] input persistent
  tensor %w: f32[9,4] parameter persistent
  tensor %t: i32[6] input persistent
  tensor %s: f32[] input persistent
  tensor %dw: f32[9,4] gradient persistent
  tensor %loss: f32[] metric persistent
)";

TEST(FuseLossBackward, MakesTheLogitsOnce) {
  ExpectFused(FuseLossBackward, 1, kTensors + R"(
forward
  %h: f32[6,4] = scale(%x) {factor=2.0} @head
  %loss, %lse: f32[6] = linear_cross_entropy(%h, %w, %t, %s) @head
backward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0} !autodiff
  %dh: f32[6,4], %dw, _ = linear_cross_entropy_backward(%h, %w, %t, %s, %lse, %dloss, %dw) !autodiff
  %dx: f32[6,4] = scale(%dh) {factor=2.0} !autodiff
)",
              kTensors + R"(
forward
  %h: f32[6,4] = scale(%x) {factor=2.0} @head
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0} !autodiff
  %loss, %dh: f32[6,4], %dw, _ = linear_cross_entropy_train(%h, %w, %t, %s, %dloss, %dw) @head !fuse
backward
  %dx: f32[6,4] = scale(%dh) {factor=2.0} !autodiff
)");
}

TEST(FuseLossBackward, KeepsTheSoftCap) {
  ExpectFused(FuseLossBackward, 1, kTensors + R"(
forward
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s) {softcap=30.0}
backward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  _, %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, %dw) {softcap=30.0}
)",
              kTensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, _, %dw, _ = linear_cross_entropy_train(%x, %w, %t, %s, %dloss, %dw) {softcap=30.0} !fuse
)");
}

// In 16 bits, x, weight and dx have 16 bits; everything else about the loss is float32.
TEST(FuseLossBackward, KeepsTheTypes) {
  const std::string tensors = R"(program p
  tensor %x: bf16[6,4] input persistent
  tensor %w: bf16[9,4] parameter persistent
  tensor %t: i32[6] input persistent
  tensor %s: f32[] input persistent
  tensor %dw: f32[9,4] gradient persistent
  tensor %loss: f32[] metric persistent
)";
  ExpectFused(FuseLossBackward, 1, tensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
backward
  %dx: bf16[6,4], %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, %dw)
)",
              tensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %dx: bf16[6,4], %dw, _ = linear_cross_entropy_train(%x, %w, %t, %s, %dloss, %dw) !fuse
)");
}

TEST(FuseLossBackward, LeavesOutUnwantedGradients) {
  ExpectFused(FuseLossBackward, 1, kTensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
backward
  %dx: f32[6,4], _, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, _)
)",
              kTensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %dx: f32[6,4], _, _ = linear_cross_entropy_train(%x, %w, %t, %s, %dloss, _) !fuse
)");
}

TEST(FuseLossBackward, KeepsTheAxisOfASplitVocabulary) {
  ExpectFused(FuseLossBackward, 1, kTensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s) {axis="tensor"}
backward
  %dx: f32[6,4], %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, %dw) {axis="tensor"}
)",
              kTensors + R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %dx: f32[6,4], %dw, _ = linear_cross_entropy_train(%x, %w, %t, %s, %dloss, %dw) {axis="tensor"} !fuse
)");
}

// Returns the number of fused losses in the schedule; if there are none, nothing may have changed.
int Fused(const std::string& schedule) {
  Program program = Parse(kTensors + schedule);
  const std::string before = ToText(program);
  const int replaced = FuseLossBackward(program);
  if (replaced == 0) {
    EXPECT_EQ(ToText(program), before);
  }
  return replaced;
}

TEST(FuseLossBackward, KeepsALossWhoseGradientDependsOnIt) {
  EXPECT_EQ(Fused(R"(
forward
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
  %square: f32[] = mul(%loss, %loss)
backward
  %dloss: f32[] = scale(%loss) {factor=2.0}
  %dx: f32[6,4], %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, _)
)"),
            0);
}

TEST(FuseLossBackward, KeepsALossWhoseLseIsReadElsewhere) {
  EXPECT_EQ(Fused(R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
  %twice: f32[6] = scale(%lse) {factor=2.0}
backward
  %dx: f32[6,4], %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, _)
)"),
            0);
}

TEST(FuseLossBackward, KeepsALossWithoutBackward) {
  EXPECT_EQ(Fused(R"(
forward
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
)"),
            0);
}

TEST(FuseLossBackward, KeepsALossWhoseWeightChangesInBetween) {
  EXPECT_EQ(Fused(R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
  %w = scale(%w) {factor=0.5}
backward
  %dx: f32[6,4], %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, _)
)"),
            0);
}

TEST(FuseLossBackward, KeepsALossWhoseResultIsTouchedInBetween) {
  EXPECT_EQ(Fused(R"(
forward
  %dloss: f32[] = fill() {dtype="f32", rank=0, value=1.0}
  %loss, %lse: f32[6] = linear_cross_entropy(%x, %w, %t, %s)
  %old: f32[9,4] = scale(%dw) {factor=0.5}
backward
  %dx: f32[6,4], %dw, _ = linear_cross_entropy_backward(%x, %w, %t, %s, %lse, %dloss, _)
)"),
            0);
}

}  // namespace
}  // namespace plimsoll::ops
