// Golden tests of 8-bit linear layers.
#include "amp/fp8.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "graph/autodiff.h"
#include "graph/simplify.h"
#include "ops/fusions.h"
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

TEST(MarkFp8, LeavesTheEndsIn16Bits) {
  AmpOptions options = Options();
  options.fp8.skip_ends = 1;
  const std::string tensors = R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[16,16] parameter persistent
forward
)";
  ExpectPass(MarkFp8(options), tensors + R"(
  %a: bf16[8,16] = linear(%x, %w) @block.0
  %b: bf16[8,16] = linear(%a, %w) @block.1.attn
  %c: bf16[8,16] = linear(%b, %w) @block.1.mlp
  %d: bf16[8,16] metric = linear(%c, %w) @block.2
)",
             R"(program p
  …
forward
  %a: bf16[8,16] = linear(%x, %w) @block.0
  %b: bf16[8,16] = linear(%a, %w) {fp8="e4m3"} @block.1.attn
  %c: bf16[8,16] = linear(%b, %w) {fp8="e4m3"} @block.1.mlp
  %d: bf16[8,16] metric = linear(%c, %w) @block.2
)");
}

constexpr char kLayer[] = R"(program p
  tensor %x: bf16[2,5,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %b: bf16[32] parameter persistent
  tensor %w.grad: f32[32,16] gradient persistent of %w as gradient
  tensor %b.grad: f32[32] gradient persistent of %b as gradient
  tensor %dx: bf16[2,5,16] metric persistent
forward
  %y: bf16[2,5,32] = linear(%x, %w, %b) {fp8="e5m2"} @block.0
  %dy: bf16[2,5,32] = gelu(%y) {approximate="tanh"} @block.0
backward
  %w.grad, %b.grad = linear_dw(%x, %dy, %w.grad, %b.grad) {bias=true, fp8="e5m2"} @block.0 !autodiff
  %dx = linear_dx(%dy, %w) {fp8="e5m2"} @block.0 !autodiff
)";

// A weight's largest magnitude is found once, and waits for the backward pass.
TEST(Fp8Products, QuantizesOnceWhatIsReadTwice) {
  Program program = Parse(kLayer);
  Fp8Products pass;
  EXPECT_EQ(pass.Run(program).summary, "3 products of 8-bit codes");
  graph::Simplify().Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: bf16[2,5,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %b: bf16[32] parameter persistent
  tensor %w.grad: f32[32,16] gradient persistent of %w as gradient
  tensor %b.grad: f32[32] gradient persistent of %b as gradient
  tensor %dx: bf16[2,5,16] metric persistent
forward
  %x.largest: f32[] = largest_magnitude(%x) @block.0 !fp8_products
  %x.codes_t: e4m3[16,16], %x.codes: e4m3[2,5,16], %x.scale: f32[], _ = quantize(%x, %x.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %w.largest: f32[] = largest_magnitude(%w) @block.0 !fp8_products
  _, %w.codes: e4m3[32,16], %w.scale: f32[], _ = quantize(%w, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %y: bf16[2,5,32] = scaled_linear(%x.codes, %w.codes, %x.scale, %w.scale, %b) {dtype="bf16", fast=true} @block.0 !fp8_products
  %dy: bf16[2,5,32] = gelu(%y) {approximate="tanh"} @block.0
backward
  %dy.largest: f32[] = largest_magnitude(%dy) @block.0 !fp8_products
  %dy.codes_t: e5m2[32,16], %dy.codes: e5m2[2,5,32], %dy.scale: f32[], %b.grad = quantize(%dy, %dy.largest, %b.grad) {dtype="e5m2"} @block.0 !fp8_products
  %w.grad = scaled_linear(%dy.codes_t, %x.codes_t, %dy.scale, %x.scale, _, %w.grad, _) {dtype="f32"} @block.0 !fp8_products
  %w.codes_t.2: e4m3[16,32], _, %w.scale.2: f32[], _ = quantize(%w, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %dx = scaled_linear(%dy.codes, %w.codes_t.2, %dy.scale, %w.scale.2, _, _) {dtype="bf16"} @block.0 !fp8_products
)");
}

// Scales of the activation and the gradient come from a carried state, in place of their own
// magnitudes, which become its pending value, the largest of this micro-step and those before.
TEST(Fp8Products, ScalesOfEarlierStepsAreCarried) {
  Program program = Parse(kLayer);
  Fp8Products pass({.codes = {.window = 4}, .carry = graph::Carry::kAccumulate});
  EXPECT_EQ(pass.Run(program).summary, "3 products of 8-bit codes");
  graph::Simplify().Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: bf16[2,5,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %b: bf16[32] parameter persistent
  tensor %w.grad: f32[32,16] gradient persistent of %w as gradient
  tensor %b.grad: f32[32] gradient persistent of %b as gradient
  tensor %dx: bf16[2,5,16] metric persistent
  tensor %fp8_largest: f32[2] state persistent
  tensor %fp8_largest.history: f32[4,2] state persistent of %fp8_largest as history names 0e1579d2
  tensor %fp8_largest.pending: f32[2] pending persistent of %fp8_largest as pending merged max, max
forward
  %x.largest: f32[] = largest_magnitude(%x) @block.0 !fp8_products
  %x.codes_t: e4m3[16,16], %x.codes: e4m3[2,5,16], %x.scale: f32[], _ = quantize(%x, %x.largest, _, %fp8_largest) {dtype="e4m3", index=0} @block.0 !fp8_products
  %w.largest: f32[] = largest_magnitude(%w) @block.0 !fp8_products
  _, %w.codes: e4m3[32,16], %w.scale: f32[], _ = quantize(%w, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %y: bf16[2,5,32] = scaled_linear(%x.codes, %w.codes, %x.scale, %w.scale, %b) {dtype="bf16", fast=true} @block.0 !fp8_products
  %dy: bf16[2,5,32] = gelu(%y) {approximate="tanh"} @block.0
backward
  %dy.largest: f32[] = largest_magnitude(%dy) @block.0 !fp8_products
  %dy.codes_t: e5m2[32,16], %dy.codes: e5m2[2,5,32], %dy.scale: f32[], %b.grad = quantize(%dy, %dy.largest, %b.grad, %fp8_largest) {dtype="e5m2", index=1} @block.0 !fp8_products
  %w.grad = scaled_linear(%dy.codes_t, %x.codes_t, %dy.scale, %x.scale, _, %w.grad, _) {dtype="f32"} @block.0 !fp8_products
  %w.codes_t.2: e4m3[16,32], _, %w.scale.2: f32[], _ = quantize(%w, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %dx = scaled_linear(%dy.codes, %w.codes_t.2, %dy.scale, %w.scale.2, _, _) {dtype="bf16"} @block.0 !fp8_products
  %fp8_largest.found: f32[2] = stack(%x.largest, %dy.largest) @fp8_largest !fp8_products
  %fp8_largest.pending = max_magnitude(%fp8_largest.found, %fp8_largest.pending) @fp8_largest !fp8_products
)");
}

// The checksum is of weights' names and operands: names of activations don't matter.
TEST(Fp8Products, HistoriesKnowTheNamesOfTheirLayers) {
  const auto names = [](std::initializer_list<std::pair<const char*, const char*>> changes) {
    std::string text = kLayer;
    for (const auto& [from, to] : changes) {
      for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += std::strlen(to)) {
        text.replace(at, std::strlen(from), to);
      }
    }
    Program program = Parse(text);
    Fp8Products({.codes = {.window = 4}}).Run(program);
    return program.tensor(program.Require("fp8_largest.history")).names_crc;
  };
  EXPECT_EQ(names({}), Crc32c("w input\nw gradient\n"));
  EXPECT_EQ(names({{"%x", "%gathered"}, {"%dy", "%reduced"}}), names({}));
  EXPECT_EQ(names({{"%w", "%v"}}), Crc32c("v input\nv gradient\n"));
}

// With scales of earlier steps, activations and their gradients are never stored as numbers.
TEST(Fp8Products, ScalesOfEarlierStepsLetActivationsMakeCodes) {
  Program program = Parse(R"(program p
  tensor %x: bf16[32,16] input persistent
  tensor %up: bf16[32,16] parameter persistent
  tensor %down: bf16[16,16] parameter persistent
  tensor %y: bf16[32,16] metric persistent
  tensor %dy: bf16[32,16] input persistent
  tensor %up.grad: f32[32,16] gradient persistent of %up as gradient
  tensor %down.grad: f32[16,16] gradient persistent of %down as gradient
forward
  %h: bf16[32,32] = linear(%x, %up) {fp8="e5m2"} @block.0
  %g: bf16[32,16] = swiglu(%h) @block.0
  %y = linear(%g, %down) {fp8="e5m2"} @block.0
backward
  %down.grad, _ = linear_dw(%g, %dy, _, _) {bias=false, fp8="e5m2"} @block.0
  %dg: bf16[32,16] = linear_dx(%dy, %down) {fp8="e5m2"} @block.0
  %dh: bf16[32,32] = swiglu_backward(%h, %dg) @block.0
  %up.grad, _ = linear_dw(%x, %dh, _, _) {bias=false, fp8="e5m2"} @block.0
)");
  Fp8Products({.codes = {.window = 2}}).Run(program);
  graph::Simplify().Run(program);
  EXPECT_EQ(ops::FuseQuantizedActivations(program), 2);
  program.DropUnusedTensors();
  EXPECT_NO_THROW(graph::Verify(program));
  EXPECT_EQ(program.Find("g"), graph::kNoTensor);
  EXPECT_EQ(program.Find("dh"), graph::kNoTensor);
}

// Nor are norms, of which the backward pass reads statistics alone.
TEST(Fp8Products, ScalesOfEarlierStepsLetNormsMakeCodes) {
  Program program = Parse(R"(program p
  tensor %x: bf16[32,16] input persistent
  tensor %h: bf16[32,16] input persistent
  tensor %norm: bf16[16] parameter persistent
  tensor %w: bf16[16,16] parameter persistent
  tensor %y: bf16[32,16] metric persistent
  tensor %dy: bf16[32,16] input persistent
  tensor %dx: bf16[32,16] metric persistent
  tensor %w.grad: f32[16,16] gradient persistent of %w as gradient
  tensor %norm.grad: f32[16] gradient persistent of %norm as gradient
forward
  %s: bf16[32,16], %n: bf16[32,16], %rstd: f32[32] = add_rms_norm(%x, %h, %norm) {eps=1e-05} @block.0
  %y = linear(%n, %w) {fp8="e5m2"} @block.0
backward
  %w.grad, _ = linear_dw(%n, %dy, _, _) {bias=false, fp8="e5m2"} @block.0
  %dn: bf16[32,16] = linear_dx(%dy, %w) {fp8="e5m2"} @block.0
  %dx, %norm.grad = rms_norm_backward(%s, %norm, %rstd, %dn, _, _) @block.0
)");
  Fp8Products({.codes = {.window = 2}}).Run(program);
  graph::Simplify().Run(program);
  EXPECT_EQ(ops::FuseQuantizedNorms(program), 1);
  program.DropUnusedTensors();
  EXPECT_NO_THROW(graph::Verify(program));
  EXPECT_EQ(program.Find("n"), graph::kNoTensor);
}

constexpr char kFeedForward[] = R"(program p
  tensor %x: bf16[32,16] input persistent
  tensor %up: bf16[32,16] parameter persistent
  tensor %dg: bf16[32,32] input persistent
  tensor %g: bf16[32,32] metric persistent
  tensor %up.grad: f32[32,16] gradient persistent of %up as gradient
forward
  %h: bf16[32,32] = linear(%x, %up) {fp8="e5m2"} @block.0
  %g = gelu(%h) {approximate="tanh"} @block.0
backward
  %dh: bf16[32,32] = gelu_backward(%h, %dg) {approximate="tanh"} @block.0
  %up.grad, _ = linear_dw(%x, %dh, _, _) {bias=false, fp8="e5m2"} @block.0
)";

// The activation function and its gradient read the codes that wait, with a scale of their own.
TEST(Fp8Products, PreActivationsAreKeptAsCodes) {
  Program program = Parse(kFeedForward);
  Fp8Products pass({.codes = {.window = 4, .pre_activations = true}});
  EXPECT_EQ(pass.Run(program).summary, "2 products of 8-bit codes, 1 pre-activation in 8 bits");
  graph::Simplify().Run(program);
  ExpectProgram(program, R"(program p
  …
  tensor %up.grad: f32[32,16] gradient persistent of %up as gradient
  tensor %fp8_largest: f32[3] state persistent
  tensor %fp8_largest.history: f32[4,3] state persistent of %fp8_largest as history names 2b26d621
  tensor %fp8_largest.pending: f32[3] pending persistent of %fp8_largest as pending merged max, max
forward
  %x.largest: f32[] = largest_magnitude(%x) @block.0 !fp8_products
  %x.codes_t: e4m3[16,32], %x.codes: e4m3[32,16], %x.scale: f32[], _ = quantize(%x, %x.largest, _, %fp8_largest) {dtype="e4m3", index=0} @block.0 !fp8_products
  %up.largest: f32[] = largest_magnitude(%up) @block.0 !fp8_products
  _, %up.codes: e4m3[32,16], %up.scale: f32[], _ = quantize(%up, %up.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %h: bf16[32,32] = scaled_linear(%x.codes, %up.codes, %x.scale, %up.scale, _) {dtype="bf16", fast=true} @block.0 !fp8_products
  %h.largest: f32[] = largest_magnitude(%h) @block.0 !fp8_products
  _, %h.codes: e4m3[32,32], %h.scale: f32[], _ = quantize(%h, %h.largest, _, %fp8_largest) {dtype="e4m3", index=1} @block.0 !fp8_products
  %h.numbers: bf16[32,32] = dequantize(%h.codes, %h.scale) {dtype="bf16"} @block.0 !fp8_products
  %g = gelu(%h.numbers) {approximate="tanh"} @block.0
backward
  %h.numbers.2: bf16[32,32] = dequantize(%h.codes, %h.scale) {dtype="bf16"} @block.0 !fp8_products
  %dh: bf16[32,32] = gelu_backward(%h.numbers.2, %dg) {approximate="tanh"} @block.0
  %dh.largest: f32[] = largest_magnitude(%dh) @block.0 !fp8_products
  %dh.codes_t: e5m2[32,32], _, %dh.scale: f32[], _ = quantize(%dh, %dh.largest, _, %fp8_largest) {dtype="e5m2", index=2} @block.0 !fp8_products
  %up.grad = scaled_linear(%dh.codes_t, %x.codes_t, %dh.scale, %x.scale, _, _, _) {dtype="f32"} @block.0 !fp8_products
  %fp8_largest.found: f32[3] = stack(%x.largest, %h.largest, %dh.largest) @fp8_largest !fp8_products
  %fp8_largest.pending = max_magnitude(%fp8_largest.found, _) @fp8_largest !fp8_products
)",
                kFeedForward);
  // The gradient is made of the codes at once; the function's result is read as numbers here.
  EXPECT_EQ(ops::FuseQuantizedActivations(program), 1);
  EXPECT_EQ(ops::FuseDequantized(program), 1);
  program.DropUnusedTensors();
  EXPECT_NO_THROW(graph::Verify(program));
  EXPECT_NE(program.Find("h.numbers"), graph::kNoTensor);
  EXPECT_EQ(program.Find("h.numbers.2"), graph::kNoTensor);
}

// Something else reads the layer's result, or it is one that the host reads.
TEST(Fp8Products, ResultsThatOthersReadStay) {
  const auto expect_stays = [](const std::string& text) {
    Program program = Parse(text);
    EXPECT_EQ(Fp8Products({.codes = {.pre_activations = true}}).Run(program).summary,
              "2 products of 8-bit codes");
  };
  const std::string text = kFeedForward;
  for (const char* const reader :
       {"%other: bf16[32,32] metric = add(%h, %dg)",
        "%other: bf16[32,32] = gelu_backward(%dg, %h) {approximate=\"tanh\"}"}) {
    std::string read = text;
    expect_stays(read.insert(text.find("backward\n"), fmt::format("  {} @block.0\n", reader)));
  }
  std::string metric = text;
  expect_stays(metric.insert(text.find(" = linear("), " metric"));
}

// No result waits of a layer that comes before all trained ones.
TEST(Fp8Products, PreActivationsThatDoNotWaitStay) {
  Program program = Parse(R"(program p
  tensor %x: bf16[32,16] input persistent
  tensor %up: bf16[32,16] parameter persistent
  tensor %g: bf16[32,32] metric persistent
forward
  %h: bf16[32,32] = linear(%x, %up) {fp8="e5m2"} @block.0
  %g = gelu(%h) {approximate="tanh"} @block.0
)");
  EXPECT_EQ(Fp8Products({.codes = {.pre_activations = true}}).Run(program).summary,
            "1 product of 8-bit codes");
}

// A frozen layer needs no gradient of its weight: nothing transposed waits.
TEST(Fp8Products, FrozenLayersKeepNoCodes) {
  Program program = Parse(R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %dy: bf16[8,32] input persistent
  tensor %y: bf16[8,32] metric persistent
  tensor %dx: bf16[8,16] metric persistent
forward
  %y = linear(%x, %w) {fp8="e5m2"} @block.0
backward
  %dx = linear_dx(%dy, %w) {fp8="e5m2"} @block.0 !autodiff
)");
  Fp8Products().Run(program);
  graph::Simplify().Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %dy: bf16[8,32] input persistent
  tensor %y: bf16[8,32] metric persistent
  tensor %dx: bf16[8,16] metric persistent
forward
  %x.largest: f32[] = largest_magnitude(%x) @block.0 !fp8_products
  _, %x.codes: e4m3[8,16], %x.scale: f32[], _ = quantize(%x, %x.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %w.largest: f32[] = largest_magnitude(%w) @block.0 !fp8_products
  _, %w.codes: e4m3[32,16], %w.scale: f32[], _ = quantize(%w, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %y = scaled_linear(%x.codes, %w.codes, %x.scale, %w.scale, _) {dtype="bf16", fast=true} @block.0 !fp8_products
backward
  %dy.largest: f32[] = largest_magnitude(%dy) @block.0 !fp8_products
  _, %dy.codes: e5m2[8,32], %dy.scale: f32[], _ = quantize(%dy, %dy.largest, _) {dtype="e5m2"} @block.0 !fp8_products
  %w.codes_t.2: e4m3[16,32], _, %w.scale.2: f32[], _ = quantize(%w, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %dx = scaled_linear(%dy.codes, %w.codes_t.2, %dy.scale, %w.scale.2, _, _) {dtype="bf16"} @block.0 !fp8_products
)");
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
  EXPECT_TRUE(Fp8Products().Run(program).refused);
}

// The gradient of a weight that LowGradients has made bf16 keeps its draws.
TEST(Fp8Products, LowGradientsStayLow) {
  Program program = Parse(R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %dy: bf16[8,32] input persistent
  tensor %w.grad: bf16[32,16] gradient persistent of %w as gradient
  tensor %rng: i32[2] input persistent
forward
  %y: bf16[8,32] metric = linear(%x, %w) {fp8="e5m2"} @block.0
backward
  %w.grad, _ = linear_dw(%x, %dy, %w.grad, _, %rng) {bias=false, fp8="e5m2", key=7, low_gradient=true} @block.0 !autodiff
)");
  Fp8Products().Run(program);
  graph::Simplify().Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: bf16[8,16] input persistent
  tensor %w: bf16[32,16] parameter persistent
  tensor %dy: bf16[8,32] input persistent
  tensor %w.grad: bf16[32,16] gradient persistent of %w as gradient
  tensor %rng: i32[2] input persistent
forward
  %x.largest: f32[] = largest_magnitude(%x) @block.0 !fp8_products
  %x.codes_t: e4m3[16,16], _, %x.scale: f32[], _ = quantize(%x, %x.largest, _) {dtype="e4m3"} @block.0 !fp8_products
backward
  %dy.largest: f32[] = largest_magnitude(%dy) @block.0 !fp8_products
  %dy.codes_t: e5m2[32,16], _, %dy.scale: f32[], _ = quantize(%dy, %dy.largest, _) {dtype="e5m2"} @block.0 !fp8_products
  %w.grad = scaled_linear(%dy.codes_t, %x.codes_t, %dy.scale, %x.scale, _, %w.grad, %rng) {dtype="bf16", key=7, low_gradient=true} @block.0 !fp8_products
)");
}

}  // namespace
}  // namespace plimsoll::amp
