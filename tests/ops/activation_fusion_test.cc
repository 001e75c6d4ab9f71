#include "ops/elementwise/activation_fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::ops {
namespace {

using graph::ExpectProgram;
using graph::Parse;
using graph::Program;

// The middle of a block: x → linear → h → gelu → g → linear, with g recomputed.
const std::string kTensors = R"(program p
  tensor %h: f32[6,8] input persistent
  tensor %x: f32[6,4] input persistent
  tensor %up: f32[8,4] parameter persistent
  tensor %down: f32[4,8] parameter persistent
  tensor %dy: f32[6,4] input persistent
  tensor %dup: f32[8,4] gradient persistent
  tensor %dup_bias: f32[8] gradient persistent
  tensor %ddown: f32[4,8] gradient persistent
  tensor %ddown_bias: f32[4] gradient persistent
)";

TEST(FuseRecomputedActivations, MakesAGeluWithItsGradient) {
  Program program = Parse(kTensors + R"(
recompute
  %g: f32[6,8] = gelu(%h) {approximate="tanh"} !recompute
backward
  %ddown, %ddown_bias = linear_dw(%g, %dy, _, _) {bias=true} !autodiff
  %dg: f32[6,8] = linear_dx(%dy, %down, _) !autodiff
  %dh: f32[6,8] = gelu_backward(%h, %dg) {approximate="tanh"} !autodiff
  %dup, %dup_bias = linear_dw(%x, %dh, %dup, %dup_bias) {bias=true} !autodiff
  %dx: f32[6,4] = linear_dx(%dh, %up, _) !autodiff
)");
  EXPECT_EQ(FuseRecomputedActivations(program), 1);
  ExpectProgram(program, kTensors + R"(
backward
  %dg: f32[6,8] = linear_dx(%dy, %down, _) !autodiff
  %g: f32[6,8], %dh: f32[6,8], _ = gelu_with_backward(%h, %dg) {approximate="tanh"} !fuse
  %ddown, %ddown_bias = linear_dw(%g, %dy, _, _) {bias=true} !autodiff
  %dup, %dup_bias = linear_dw(%x, %dh, %dup, %dup_bias) {bias=true} !autodiff
  %dx: f32[6,4] = linear_dx(%dh, %up, _) !autodiff
)");
  EXPECT_EQ(FuseRecomputedActivations(program), 0);

  // ... and sums up the gradient of the bias, possibly accumulated, at the same time.
  EXPECT_EQ(FuseBiasGradients(program), 1);
  ExpectProgram(program, kTensors + R"(
backward
  %dg: f32[6,8] = linear_dx(%dy, %down, _) !autodiff
  %g: f32[6,8], %dh: f32[6,8], %dup_bias = gelu_with_backward(%h, %dg, %dup_bias) {approximate="tanh"} !fuse
  %ddown, %ddown_bias = linear_dw(%g, %dy, _, _) {bias=true} !autodiff
  %dup, _ = linear_dw(%x, %dh, %dup, _) {bias=false} !autodiff
  %dx: f32[6,4] = linear_dx(%dh, %up, _) !autodiff
)");
  EXPECT_EQ(FuseBiasGradients(program), 0);
}

// The next layer's product reads the activation's codes.
TEST(FuseRecomputedActivations, MovesCodesAndTheirReader) {
  const std::string tensors = R"(program p
  tensor %h: bf16[6,32] input persistent
  tensor %dyt: e5m2[16,16] input persistent
  tensor %scale: f32[] input persistent
  tensor %dg: bf16[6,16] input persistent
  tensor %ddown: f32[16,16] gradient persistent
)";
  ExpectFused(FuseRecomputedActivations, 1, tensors + R"(
recompute
  %g: bf16[6,16] = swiglu(%h) !recompute
  %gl: f32[] = largest_magnitude(%g) !recompute
  %gt: e4m3[16,16], _, %gs: f32[], _ = quantize(%g, %gl) {dtype="e4m3"} !recompute
backward
  %ddown = scaled_linear(%dyt, %gt, %scale, %gs, _, %ddown) {dtype="f32"}
  %dh: bf16[6,32] = swiglu_backward(%h, %dg)
)",
              tensors + R"(
backward
  %g: bf16[6,16], %dh: bf16[6,32] = swiglu_with_backward(%h, %dg) !fuse
recompute
  %gl: f32[] = largest_magnitude(%g) !recompute
  %gt: e4m3[16,16], _, %gs: f32[], _ = quantize(%g, %gl) {dtype="e4m3"} !recompute
backward
  %ddown = scaled_linear(%dyt, %gt, %scale, %gs, _, %ddown) {dtype="f32"}
)");
}

// Each activation, and its gradient, finds the largest magnitude of what it makes, also where that
// is asked of another shape of it, and once where it is asked twice. What no node makes is read.
TEST(FuseLargest, AsksTheOpThatMakesATensor) {
  const std::string tensors = R"(program p
  tensor %h: bf16[2,3,32] input persistent
  tensor %dg: bf16[2,3,16] input persistent
  tensor %w: bf16[16,32] parameter persistent
  tensor %a: e4m3[2,3,16] metric persistent
  tensor %b: e5m2[6,32] metric persistent
  tensor %c: e4m3[16,32] metric persistent
  tensor %d: e4m3[6,16] metric persistent
)";
  ExpectFused(FuseLargest, 3, tensors + R"(
backward
  %g: bf16[2,3,16], %dh: bf16[2,3,32] = swiglu_with_backward(%h, %dg)
  %gl: f32[] = largest_magnitude(%g)
  _, %a, %as: f32[], _ = quantize(%g, %gl, _) {dtype="e4m3"}
  %rows: bf16[6,32] view %dh+0 = view(%dh) {d0=6, d1=32, rank=2}
  %dhl: f32[] = largest_magnitude(%rows)
  _, %b, %bs: f32[], _ = quantize(%rows, %dhl, _) {dtype="e5m2"}
  %wl: f32[] = largest_magnitude(%w)
  _, %c, %cs: f32[], _ = quantize(%w, %wl, _) {dtype="e4m3"}
  %flat: bf16[6,16] view %g+0 = view(%g) {d0=6, d1=16, rank=2}
  %fl: f32[] = largest_magnitude(%flat)
  _, %d, %ds: f32[], _ = quantize(%flat, %fl, _) {dtype="e4m3"}
)",
              tensors + R"(
backward
  %g: bf16[2,3,16], %dh: bf16[2,3,32], %gl: f32[], %dhl: f32[] = swiglu_with_backward(%h, %dg) {largest=true}
  _, %a, %as: f32[], _ = quantize(%g, %gl, _) {dtype="e4m3"}
  %rows: bf16[6,32] view %dh+0 = view(%dh) {d0=6, d1=32, rank=2}
  _, %b, %bs: f32[], _ = quantize(%rows, %dhl, _) {dtype="e5m2"}
  %wl: f32[] = largest_magnitude(%w)
  _, %c, %cs: f32[], _ = quantize(%w, %wl, _) {dtype="e4m3"}
  %flat: bf16[6,16] view %g+0 = view(%g) {d0=6, d1=16, rank=2}
  _, %d, %ds: f32[], _ = quantize(%flat, %gl, _) {dtype="e4m3"}
)");
}

// The forward pass finds it for codes that are made again.
TEST(FuseLargest, OfWhatAnotherPhaseMakes) {
  const std::string tensors = R"(program p
  tensor %h: bf16[6,32] input persistent
  tensor %a: e4m3[16,16] metric persistent
)";
  ExpectFused(FuseLargest, 1, tensors + R"(
forward
  %g: bf16[6,16] = swiglu(%h)
backward
  %gl: f32[] = largest_magnitude(%g)
  %a, _, %as: f32[], _ = quantize(%g, %gl, _) {dtype="e4m3"}
)",
              tensors + R"(
forward
  %g: bf16[6,16], %gl: f32[] = swiglu(%h) {largest=true}
backward
  %a, _, %as: f32[], _ = quantize(%g, %gl, _) {dtype="e4m3"}
)");
}

// An optional output that nobody reads stays absent before that of the largest magnitude.
TEST(FuseLargest, AsksAttentionAndRotary) {
  const std::string tensors = R"(program p
  tensor %qkv: bf16[2,3,32] input persistent
  tensor %dqkv: bf16[2,3,32] input persistent
  tensor %a: e4m3[2,3,16] metric persistent
  tensor %b: e5m2[2,3,32] metric persistent
)";
  ExpectFused(FuseLargest, 2, tensors + R"(
forward
  %o: bf16[2,3,16], _ = attention(%qkv, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=1}
  %ol: f32[] = largest_magnitude(%o)
  _, %a, %as: f32[], _ = quantize(%o, %ol, _) {dtype="e4m3"}
backward
  %d: bf16[2,3,32] = rotary(%dqkv) {heads=2, inverse=true, kv_heads=1, theta=10000.0}
  %dl: f32[] = largest_magnitude(%d)
  _, %b, %bs: f32[], _ = quantize(%d, %dl, _) {dtype="e5m2"}
)",
              tensors + R"(
forward
  %o: bf16[2,3,16], _, %ol: f32[] = attention(%qkv, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=1, largest=true}
  _, %a, %as: f32[], _ = quantize(%o, %ol, _) {dtype="e4m3"}
backward
  %d: bf16[2,3,32], %dl: f32[] = rotary(%dqkv) {heads=2, inverse=true, kv_heads=1, largest=true, theta=10000.0}
  _, %b, %bs: f32[], _ = quantize(%d, %dl, _) {dtype="e5m2"}
)");
}

TEST(FuseRecomputedActivations, MakesAGegluWithItsGradient) {
  const std::string tensors = R"(program p
  tensor %h: bf16[6,16] input persistent
  tensor %dg: bf16[6,8] input persistent
  tensor %x: bf16[6,8] metric persistent
  tensor %dh: bf16[6,16] metric persistent
)";
  ExpectFused(FuseRecomputedActivations, 1, tensors + R"(
recompute
  %g: bf16[6,8] = geglu(%h) !recompute
backward
  %dh = geglu_backward(%h, %dg)
  %x = scale(%g) {factor=2.0}
)",
              tensors + R"(
backward
  %g: bf16[6,8], %dh = geglu_with_backward(%h, %dg) !fuse
  %x = scale(%g) {factor=2.0}
)");
}

TEST(FuseRecomputedActivations, MakesASwigluWithItsGradient) {
  const std::string tensors = R"(program p
  tensor %h: bf16[6,16] input persistent
  tensor %down: bf16[4,8] parameter persistent
  tensor %dy: bf16[6,4] input persistent
  tensor %ddown: f32[4,8] gradient persistent
)";
  ExpectFused(FuseRecomputedActivations, 1, tensors + R"(
recompute
  %g: bf16[6,8] = swiglu(%h) !recompute
backward
  %ddown, _ = linear_dw(%g, %dy, %ddown, _) {bias=false}
  %dg: bf16[6,8] = linear_dx(%dy, %down, _)
  %dh: bf16[6,16] = swiglu_backward(%h, %dg)
)",
              tensors + R"(
backward
  %dg: bf16[6,8] = linear_dx(%dy, %down, _)
  %g: bf16[6,8], %dh: bf16[6,16] = swiglu_with_backward(%h, %dg) !fuse
  %ddown, _ = linear_dw(%g, %dy, %ddown, _) {bias=false}
)");
}

TEST(FuseBiasGradients, NeedsNoRecomputedGelu) {
  Program program = Parse(kTensors + R"(
backward
  %dh: f32[6,8] = gelu_backward(%h, %h) {approximate="none"}
  %dup, %dup_bias = linear_dw(%x, %dh) {bias=true}
)");
  EXPECT_EQ(FuseRecomputedActivations(program), 0);
  EXPECT_EQ(FuseBiasGradients(program), 1);
  ExpectProgram(program, kTensors + R"(
backward
  _, %dh: f32[6,8], %dup_bias = gelu_with_backward(%h, %h, _) {approximate="none"} !fuse
  %dup, _ = linear_dw(%x, %dh) {bias=false}
)");
}

// Neither fusion may match the program or change it.
void ExpectUntouched(const std::string& schedule) {
  Program program = Parse(kTensors + schedule);
  const std::string before = ToText(program);
  EXPECT_EQ(FuseRecomputedActivations(program), 0);
  EXPECT_EQ(FuseBiasGradients(program), 0);
  EXPECT_EQ(ToText(program), before);
}

TEST(FuseRecomputedActivations, KeepsAKeptActivation) {
  ExpectUntouched(R"(
forward
  %g: f32[6,8] = gelu(%h) {approximate="tanh"}
backward
  %ddown, _ = linear_dw(%g, %dy, _, _) {bias=false}
  %dg: f32[6,8] = linear_dx(%dy, %down, _)
  %dh: f32[6,8] = gelu_backward(%h, %dg) {approximate="tanh"}
)");
}

TEST(FuseRecomputedActivations, KeepsAGradientThatNeedsTheActivation) {
  ExpectUntouched(R"(
recompute
  %g: f32[6,8] = gelu(%h) {approximate="tanh"}
backward
  %dg: f32[6,8] = mul(%g, %h)
  %dh: f32[6,8] = gelu_backward(%h, %dg) {approximate="tanh"}
)");
}

TEST(FuseRecomputedActivations, KeepsAnotherInputOrKind) {
  ExpectUntouched(R"(
recompute
  %g: f32[6,8] = gelu(%h) {approximate="tanh"}
backward
  %dg: f32[6,8] = linear_dx(%dy, %down, _)
  %a: f32[6,8] = gelu_backward(%dg, %h) {approximate="tanh"}
  %b: f32[6,8] = gelu_backward(%h, %dg) {approximate="none"}
  %c: f32[6,8] = mul(%g, %a)
)");
}

TEST(FuseRecomputedActivations, KeepsAReaderWhoseResultIsReadBefore) {
  ExpectUntouched(R"(
recompute
  %g: f32[6,8] = gelu(%h) {approximate="tanh"}
backward
  %ddown, _ = linear_dw(%g, %dy, _, _) {bias=false}
  %dg: f32[6,8] = linear_dx(%dy, %ddown, _)
  %dh: f32[6,8] = gelu_backward(%h, %dg) {approximate="tanh"}
)");
}

TEST(FuseRecomputedActivations, KeepsAReaderWhoseOperandChangesBefore) {
  ExpectUntouched(R"(
recompute
  %g: f32[6,8] = gelu(%h) {approximate="tanh"}
backward
  %ddown, _ = linear_dw(%g, %dy, _, _) {bias=false}
  %dg: f32[6,8] = linear_dx(%dy, %down, _)
  %dy = scale(%dy) {factor=2.0}
  %dh: f32[6,8] = gelu_backward(%h, %dg) {approximate="tanh"}
)");
}

TEST(FuseBiasGradients, KeepsABiasThatIsTouchedInBetween) {
  ExpectUntouched(R"(
backward
  %dh: f32[6,8] = gelu_backward(%h, %h) {approximate="none"}
  %dup_bias = scale(%dup_bias) {factor=2.0}
  %dup, %dup_bias = linear_dw(%x, %dh, _, %dup_bias) {bias=true}
)");
}

TEST(FuseBiasGradients, KeepsABiasWithoutAWeight) {
  ExpectUntouched(R"(
backward
  %dh: f32[6,8] = gelu_backward(%h, %h) {approximate="none"}
  _, %dup_bias = linear_dw(%x, %dh) {bias=true}
)");
}

// The bytes of all persistent tensors after running a program with these activations.
std::vector<std::byte> Results(const Program& program) {
  ThreadPool pool(2);
  Interpreter interpreter(program, pool);
  std::mt19937 generator(3);
  std::normal_distribution<double> normal(0, 2);
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent) continue;
    std::vector<double> values(tensor.type.shape.elements());
    for (double& value : values) value = normal(generator);
    interpreter.Set(tensor.name, values);
  }
  interpreter.Run();
  std::vector<std::byte> bytes;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent) continue;
    const auto more = interpreter.Bytes(program.Require(tensor.name));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return bytes;
}

TEST(FuseActivations, KeepsAllBits) {
  for (const std::string type : {"f32", "f64", "bf16", "f16"}) {
    for (const std::string activation : {"gelu tanh", "gelu none", "swiglu", "geglu"}) {
      SCOPED_TRACE(type + " " + activation);
      const std::string wide = type == "f64" ? "f64" : "f32";
      const bool gelu = activation.starts_with("gelu");
      const std::string width = gelu ? "1003" : "2006",
                        op = activation.substr(0, activation.find(' '));
      const std::string attributes =
          gelu ? "{approximate=\"" + activation.substr(activation.find(' ') + 1) + "\"}" : "";
      Program program = Parse("program p\n tensor %h: " + type + "[150," + width +
                              "] input persistent\n tensor %x: " + type +
                              "[150,3] input persistent\n tensor %down: " + type +
                              "[5,1003] parameter persistent\n tensor %dy: " + type +
                              "[150,5] input persistent\n tensor %dup: " + wide + "[" + width +
                              ",3] gradient persistent\n tensor %dup_bias: " + wide + "[" + width +
                              "] gradient persistent\n tensor %ddown: " + wide +
                              "[5,1003] gradient persistent\nrecompute\n %g: " + type +
                              "[150,1003] = " + op + "(%h) " + attributes +
                              "\nbackward\n %ddown, _ = linear_dw(%g, %dy, %ddown, _) "
                              "{bias=false}\n %dg: " +
                              type + "[150,1003] = linear_dx(%dy, %down, _)\n %dh: " + type +
                              "[150," + width + "] = " + op + "_backward(%h, %dg) " + attributes +
                              "\n %dup, %dup_bias = linear_dw(%x, %dh, %dup, %dup_bias) "
                              "{bias=true}\n");
      const std::vector<std::byte> separate = Results(program);
      EXPECT_EQ(FuseRecomputedActivations(program), 1);
      EXPECT_TRUE(Results(program) == separate);
      EXPECT_EQ(FuseBiasGradients(program), gelu ? 1 : 0);
      EXPECT_TRUE(Results(program) == separate);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
