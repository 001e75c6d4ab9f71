// Golden tests of gradients in bf16.
#include "amp/low_gradients.h"

#include <gtest/gtest.h>

#include "tests/graph/expect_program.h"

namespace plimsoll::amp {
namespace {

using graph::Parse;
using graph::Program;

TEST(LowGradients, RoundsWhatANodeMakes) {
  ExpectPass(LowGradients(), R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %w: bf16[4,4] parameter persistent
  tensor %b: bf16[4] parameter persistent
backward
  %w.grad: f32[4,4] gradient of %w as gradient, %b.grad: f32[4] gradient of %b as gradient = linear_dw(%x, %dy) {bias=true} @layer
)",
             R"(program p
  …
backward
  %w.grad.wide: f32[4,4] gradient, %b.grad: f32[4] gradient of %b as gradient = linear_dw(%x, %dy) {bias=true} @layer
  %w.grad: bf16[4,4] gradient of %w as gradient = cast(%w.grad.wide) {dtype="bf16"} @layer !low_gradients
)");
}

// A weight that is used twice: the second contribution is added to the first one.
constexpr char kTied[] = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %w: bf16[4,4] parameter persistent
backward
  %first: f32[4,4], _ = linear_dw(%x, %dy) {bias=false} @head
  %w.grad: f32[4,4] gradient of %w as gradient, _ = linear_dw(%x, %dy, %first) {bias=false} @layer
)";

TEST(LowGradients, AddsFurtherUsesStochastically) {
  ExpectPass(LowGradients(), kTied, R"(program p
  …
  tensor %rng: i32[2] input persistent
backward
  %w.grad.wide: f32[4,4] gradient, _ = linear_dw(%x, %dy) {bias=false} @head
  %w.grad.part: bf16[4,4] gradient = cast(%w.grad.wide) {dtype="bf16"} @head !low_gradients
  %w.grad.wide.2: f32[4,4] gradient, _ = linear_dw(%x, %dy) {bias=false} @layer
  %w.grad: bf16[4,4] gradient of %w as gradient = add_rounded(%w.grad.part, %w.grad.wide.2, %rng) {key=3} @layer !low_gradients
)");
}

// What ops without such an input have given, autodiff adds by a node of its own.
TEST(LowGradients, ReplacesSums) {
  ExpectPass(LowGradients(), R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %w: bf16[4,4] parameter persistent
  tensor %w.grad: f32[4,4] gradient persistent of %w as gradient
backward
  %more: f32[4,4], _ = linear_dw(%x, %dy) {bias=false}
  %w.grad = add(%w.grad, %more)
)",
             R"(program p
  …
  tensor %w: bf16[4,4] parameter persistent
  tensor %w.grad: bf16[4,4] gradient persistent of %w as gradient
  tensor %rng: i32[2] input persistent
backward
  %more: f32[4,4], _ = linear_dw(%x, %dy) {bias=false}
  %w.grad = add_rounded(%w.grad, %more, %rng) {key=1} !low_gradients
)");
}

TEST(LowGradients, AddsToWhatMicroStepsCarry) {
  ExpectPass(LowGradients(), R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %w: bf16[4,4] parameter persistent
  tensor %w.grad: f32[4,4] gradient persistent of %w as gradient
backward
  %w.grad, _ = linear_dw(%x, %dy, %w.grad) {bias=false} @head
  %w.grad, _ = linear_dw(%x, %dy, %w.grad) {bias=false} @layer
)",
             R"(program p
  …
  tensor %w: bf16[4,4] parameter persistent
  tensor %w.grad: bf16[4,4] gradient persistent of %w as gradient
  tensor %rng: i32[2] input persistent
backward
  %w.grad.wide: f32[4,4] gradient, _ = linear_dw(%x, %dy) {bias=false} @head
  %w.grad = add_rounded(%w.grad, %w.grad.wide, %rng) {key=1} @head !low_gradients
  %w.grad.wide.2: f32[4,4] gradient, _ = linear_dw(%x, %dy) {bias=false} @layer
  %w.grad = add_rounded(%w.grad, %w.grad.wide.2, %rng) {key=3} @layer !low_gradients
)");
}

// With operands in bf16 the op does all of it.
TEST(LowGradients, LeavesRoundingToOpsThatCan) {
  ExpectPass(LowGradients(), R"(program p
  tensor %x: bf16[8,4] input persistent
  tensor %dy: bf16[8,4] input persistent
  tensor %w: bf16[4,4] parameter persistent
backward
  %first: f32[4,4], _ = linear_dw(%x, %dy) {bias=false} @head
  %w.grad: f32[4,4] gradient of %w as gradient, _ = linear_dw(%x, %dy, %first) {bias=false} @layer
)",
             R"(program p
  …
  tensor %rng: i32[2] input persistent
backward
  %w.grad.part: bf16[4,4] gradient, _ = linear_dw(%x, %dy, _, _, %rng) {bias=false, key=0, low_gradient=true} @head
  %w.grad: bf16[4,4] gradient of %w as gradient, _ = linear_dw(%x, %dy, %w.grad.part, _, %rng) {bias=false, key=1, low_gradient=true} @layer
)");
}

TEST(LowGradients, LeavesVectorsAndDoublesAlone) {
  Program program = Parse(R"(program p
  tensor %x: f64[8,4] input persistent
  tensor %dy: f64[8,4] input persistent
  tensor %w: f64[4,4] parameter persistent
  tensor %b: f64[4] parameter persistent
backward
  %w.grad: f64[4,4] gradient of %w as gradient, %b.grad: f64[4] gradient of %b as gradient = linear_dw(%x, %dy) {bias=true}
)");
  EXPECT_FALSE(LowGradients().Run(program).changed);
}

}  // namespace
}  // namespace plimsoll::amp
