#include <gtest/gtest.h>

#include <string>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::ops {
namespace {

std::string Tensors(const std::string& dtype) {
  return "program p\n  tensor %dy: " + dtype + "[6,4] input persistent\n  tensor %w: " + dtype +
         "[4,8] parameter persistent\n  tensor %x: " + dtype +
         "[6,8] input persistent\n  tensor %dx: " + dtype + "[6,8] gradient persistent\n";
}

// Expects that the fusion leaves these nodes unchanged.
void ExpectUntouched(const std::string& dtype, const std::string& nodes) {
  ExpectFused(FuseGeluGradient, 0, Tensors(dtype) + nodes, Tensors(dtype) + nodes);
}

TEST(FuseGeluGradient, MultipliesInTheProduct) {
  ExpectFused(FuseGeluGradient, 1, Tensors("bf16") + R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %w, _) @block.0.mlp !autodiff
  %y: bf16[6,8] = gelu(%x) {approximate="tanh"} @block.0.mlp !autodiff
  %dw: f32[4,8], _ = linear_dw(%y, %dy, _, _) {bias=false} !autodiff
  %dx = gelu_backward(%x, %dg) {approximate="tanh"} @block.0.mlp !autodiff
  %more: bf16[6,8] = scale(%dx) {factor=2.0} !autodiff
)",
              Tensors("bf16") + R"(
backward
  %y: bf16[6,8] = gelu(%x) {approximate="tanh"} @block.0.mlp !autodiff
  %dw: f32[4,8], _ = linear_dw(%y, %dy, _, _) {bias=false} !autodiff
  %dx = linear_dx_gelu(%dy, %w, %x) @block.0.mlp !fuse
  %more: bf16[6,8] = scale(%dx) {factor=2.0} !autodiff
)");
}

TEST(FuseGeluGradient, LeavesFloat32Alone) {
  ExpectUntouched("f32", R"(
backward
  %dg: f32[6,8] = linear_dx(%dy, %w, _)
  %dx = gelu_backward(%x, %dg) {approximate="tanh"}
)");
}

TEST(FuseGeluGradient, LeavesTheExactFormAlone) {
  ExpectUntouched("bf16", R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %w, _)
  %dx = gelu_backward(%x, %dg) {approximate="none"}
)");
}

TEST(FuseGeluGradient, LeavesAProductThatIsReadElsewhere) {
  ExpectUntouched("bf16", R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %w, _)
  %dx = gelu_backward(%x, %dg) {approximate="tanh"}
  %more: bf16[6,8] = scale(%dg) {factor=2.0}
)");
}

TEST(FuseGeluGradient, LeavesASum) {
  ExpectUntouched("bf16", R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %w, %x)
  %dx = gelu_backward(%x, %dg) {approximate="tanh"}
)");
}

TEST(FuseGeluGradient, LeavesAProductThatIsGelusOwnInput) {
  ExpectUntouched("bf16", R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %w, _)
  %dx = gelu_backward(%dg, %x) {approximate="tanh"}
)");
}

TEST(FuseGeluGradient, LeavesAWeightThatChangesInBetween) {
  ExpectUntouched("bf16", R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %w, _)
  %w = scale(%w) {factor=0.5}
  %dx = gelu_backward(%x, %dg) {approximate="tanh"}
)");
}

}  // namespace
}  // namespace plimsoll::ops
