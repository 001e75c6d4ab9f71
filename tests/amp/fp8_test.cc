// Golden tests of 8-bit linear layers.
#include "amp/fp8.h"

#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "graph/simplify.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::amp {
namespace {

using graph::Parse;
using graph::Program;

AmpOptions Options() {
  AmpOptions options;
  options.dtype = graph::DType::kBFloat16;
  options.fp8.enabled = true;
  return options;
}

TEST(MarkFp8, TakesLayersInBlocksThatAreNotSkipped) {
  AmpOptions options = Options();
  options.fp8.skip = {"block.1.*"};
  options.fp8.gradients = graph::DType::kFloat8E4M3;
  ExpectPass(MarkFp8(options), R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %block.0.w: bf16[16,16] parameter persistent
  tensor %block.1.w: bf16[16,16] parameter persistent
  tensor %head.w: bf16[16,16] parameter persistent
forward
  %a: bf16[8,16] = linear(%x, %block.0.w) @block.0.mlp
  %b: bf16[8,16] = linear(%a, %block.1.w) @block.1.mlp
  %c: bf16[8,16] metric = linear(%b, %head.w) @head
)",
             R"(program p
  …
forward
  %a: bf16[8,16] = linear(%x, %block.0.w) {fp8="e4m3"} @block.0.mlp
  %b: bf16[8,16] = linear(%a, %block.1.w) @block.1.mlp
  %c: bf16[8,16] metric = linear(%b, %head.w) @head
)");
}

constexpr char kLayer[] = R"(program p
  tensor %x: bf16[2,5,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %b: bf16[32] parameter persistent
  tensor %w.grad: f32[32,16] gradient persistent
  tensor %b.grad: f32[32] gradient persistent
forward
  %y: bf16[2,5,32] = linear(%x, %w, %b) {fp8="e5m2"} @block.0
  %dy: bf16[2,5,32] = gelu(%y) {approximate="tanh"} @block.0
backward
  %w.grad, %b.grad = linear_dw(%x, %dy, %w.grad, %b.grad) {bias=true, fp8="e5m2"} @block.0 !autodiff
  %dx: bf16[2,5,16] metric = linear_dx(%dy, %w) {fp8="e5m2"} @block.0 !autodiff
)";

TEST(Fp8Products, QuantizesOnceWhatIsReadTwice) {
  Program program = Parse(kLayer);
  Fp8Products pass;
  EXPECT_EQ(pass.Run(program).summary, "3 products of 8-bit codes");
  graph::Simplify().Run(program);
  ExpectProgram(program, R"()");
}

// A frozen layer needs no gradient of its weight: nothing transposed waits.
TEST(Fp8Products, FrozenLayersKeepNoCodes) {
  Program program = Parse(R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %dy: bf16[8,32] input persistent
forward
  %y: bf16[8,32] metric = linear(%x, %w) {fp8="e5m2"} @block.0
backward
  %dx: bf16[8,16] metric = linear_dx(%dy, %w) {fp8="e5m2"} @block.0 !autodiff
)");
  Fp8Products().Run(program);
  graph::Simplify().Run(program);
  ExpectProgram(program, R"()");
}

// 24 inputs are no multiple of 16.
TEST(Fp8Products, LeavesWhatMatrixUnitsDoNotTake) {
  Program program = Parse(R"(program p
  tensor %x: bf16[8,24] input persistent
  tensor %w: bf16[32,24] parameter persistent
  tensor %dy: bf16[8,32] input persistent
forward
  %y: bf16[8,32] metric = linear(%x, %w) {fp8="e5m2"} @block.0
backward
  %dx: bf16[8,24] metric = linear_dx(%dy, %w) {fp8="e5m2"} @block.0 !autodiff
)");
  EXPECT_FALSE(Fp8Products().Run(program).changed);
}

// The gradient of a weight that LowGradients has made bf16 keeps its draws.
TEST(Fp8Products, LowGradientsStayLow) {
  Program program = Parse(R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %dy: bf16[8,32] input persistent
  tensor %w.grad: bf16[32,16] gradient persistent
  tensor %rng: i32[2] input persistent
forward
  %y: bf16[8,32] metric = linear(%x, %w) {fp8="e5m2"} @block.0
backward
  %w.grad, _ = linear_dw(%x, %dy, %w.grad, _, %rng) {bias=false, fp8="e5m2", key=7, low_gradient=true} @block.0 !autodiff
)");
  Fp8Products().Run(program);
  graph::Simplify().Run(program);
  ExpectProgram(program, R"()");
}

}  // namespace
}  // namespace plimsoll::amp
