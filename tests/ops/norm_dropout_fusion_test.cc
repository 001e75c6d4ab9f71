#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "ops/fusions.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::ExpectProgram;
using graph::Parse;
using graph::Program;

const std::string kTensors = R"(program p
  tensor %x: bf16[6,8] input persistent
  tensor %p: bf16[6,8] input persistent
  tensor %g: bf16[8] parameter persistent
  tensor %b: bf16[8] parameter persistent
  tensor %w: bf16[4,8] parameter persistent
  tensor %rng: i32[2] input persistent
  tensor %dw: f32[4,8] gradient persistent
  tensor %dg: f32[8] gradient persistent
  tensor %db: f32[8] gradient persistent
  tensor %out: bf16[6,8] state persistent
)";

// The dropped term may be either one.
TEST(FuseNormDropout, TakesTheDropoutBeforeASum) {
  Program program = Parse(kTensors + R"(
forward
  %f: bf16[6,8] = gelu(%p) {approximate="none"}
  %d: bf16[6,8] = dropout(%f, %rng) {key=3, p=0.1}
  %a: bf16[6,8], %y: bf16[6,8], %mean: f32[6], %rstd: f32[6] = add_layer_norm(%x, %d, %g, _) {eps=1e-05} @block.1
  %e: bf16[6,8] = dropout(%y, %rng) {key=5, p=0.2}
  %c: bf16[6,8], %z: bf16[6,8], _ = add_rms_norm(%e, %a, %g) {eps=1e-06}
  %out = mul(%c, %z)
)");
  EXPECT_EQ(FuseNormDropout(program), 2);
  program.DropUnusedTensors();
  const std::string fused = kTensors + R"(
forward
  %f: bf16[6,8] = gelu(%p) {approximate="none"}
  %a: bf16[6,8], %y: bf16[6,8], %mean: f32[6], %rstd: f32[6] = add_layer_norm(%x, %f, %g, _, %rng) {eps=1e-05, key=3, p=0.1} @block.1 !fuse
  %c: bf16[6,8], %z: bf16[6,8], _ = add_rms_norm(%a, %y, %g, %rng) {eps=1e-06, key=5, p=0.2} !fuse
  %out = mul(%c, %z)
)";
  ExpectProgram(program, fused);
  EXPECT_EQ(FuseNormDropout(program), 0);
  ExpectProgram(program, fused);
}

// A gradient that is only dropped is not written. A sum of gradients among ranks may begin between.
TEST(FuseNormDropout, TakesTheDropoutOfAGradient) {
  const std::string forward = R"(
forward
  %y: bf16[6,8], %mean: f32[6], %rstd: f32[6] = layer_norm(%x, %g, %b) {eps=1e-05}
)";
  ExpectFused(FuseNormDropout, 2, kTensors + forward + R"(
backward
  %dx: bf16[6,8], %dg, %db = layer_norm_backward(%x, %g, %mean, %rstd, %p, _, %dg, %db) @block.1
  %dg = all_reduce_start(%dg) {axis="data"}
  %d: bf16[6,8] = dropout(%dx, %rng) {key=3, p=0.1}
  %dz: bf16[6,8], _ = rms_norm_backward(%x, %g, %rstd, %d, %dx, _)
  %e: bf16[6,8] = dropout(%dz, %rng) {key=5, p=0.2}
  %out = mul(%e, %d)
)",
              kTensors + forward + R"(
backward
  %dx: bf16[6,8], %dg, %db, %d: bf16[6,8] = layer_norm_backward(%x, %g, %mean, %rstd, %p, _, %dg, %db, %rng) {key=3, p=0.1} @block.1 !fuse
  %dg = all_reduce_start(%dg) {axis="data"}
  _, _, %e: bf16[6,8] = rms_norm_backward(%x, %g, %rstd, %d, %dx, _, %rng) {key=5, p=0.2} !fuse
  %out = mul(%e, %d)
)");
}

// A dropped term, or gradient, that others read as well; one of another shape; another node between
// them; a second dropout.
TEST(FuseNormDropout, LeavesOthers) {
  const std::string text = kTensors + R"(
forward
  %d: bf16[6,8] = dropout(%p, %rng) {key=1, p=0.1}
  %a: bf16[6,8], %y: bf16[6,8], %mean: f32[6], %rstd: f32[6] = add_layer_norm(%x, %d, %g, _) {eps=1e-05}
  %e: bf16[6,8] = dropout(%p, %rng) {key=2, p=0.1}
  %f: bf16[6,8] = mul(%a, %y)
  %h: bf16[6,8], %z: bf16[6,8], _, _ = add_layer_norm(%f, %e, %g, _) {eps=1e-05}
  %q: bf16[6,8] = dropout(%z, %rng) {key=3, p=0.1}
  %k: bf16[6,8], %l: bf16[6,8], _, _ = add_layer_norm(%h, %q, %g, _, %rng) {eps=1e-05, key=4, p=0.1}
  %r: bf16[6,8] = dropout(%l, %rng) {key=5, p=0.1}
  %s: bf16[6,8], %t: bf16[6,8], _, _ = add_layer_norm(%r, %r, %g, _) {eps=1e-05}
  %m: bf16[6,8] = mul(%s, %t)
backward
  %dx: bf16[6,8], %dg, %db = layer_norm_backward(%x, %g, %mean, %rstd, %d, _, %dg, %db)
  %n: bf16[6,8] = mul(%dx, %m)
  %dd: bf16[6,8] = dropout(%dx, %rng) {key=1, p=0.1}
  %dy: bf16[6,8], %dg, %db = layer_norm_backward(%k, %g, %mean, %rstd, %dd, _, %dg, %db)
  %de: bf16[6,8] = dropout(%n, %rng) {key=2, p=0.1}
  %out = mul(%de, %dy)
)";
  ExpectFused(FuseNormDropout, 0, text, text);
}

// From the parts of a step: a sum that is kept, a norm that is recomputed from it and has taken the
// dropout of its gradient. Its statistics come from a node that drops.
TEST(FuseNormDropout, BesideTheOtherFusionsOfNorms) {
  Program program = Parse(kTensors + R"(
forward
  %d: bf16[6,8] = dropout(%p, %rng) {key=1, p=0.1}
  %a: bf16[6,8] = add(%x, %d)
  %y: bf16[6,8], _, _ = layer_norm(%a, %g, %b) {eps=1e-05}
  %z: bf16[6,4] = linear(%y, %w, _)
recompute
  %y.again: bf16[6,8], %mean: f32[6], %rstd: f32[6] = layer_norm(%a, %g, %b) {eps=1e-05} !recompute
backward
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dy: bf16[6,8] = linear_dx(%z, %w, _)
  %da: bf16[6,8], %dg, %db = layer_norm_backward(%a, %g, %mean, %rstd, %dy, %x, %dg, %db)
  %dd: bf16[6,8] = dropout(%da, %rng) {key=1, p=0.1}
  %out = mul(%da, %dd)
)");
  EXPECT_EQ(FuseAddNorm(program), 1);
  EXPECT_EQ(FuseNormDropout(program), 2);
  EXPECT_EQ(FuseRecomputedNorms(program), 1);
  program.DropUnusedTensors();
  ExpectProgram(program, kTensors + R"(
forward
  %a: bf16[6,8], %y: bf16[6,8], %mean: f32[6], %rstd: f32[6] = add_layer_norm(%x, %p, %g, %b, %rng) {eps=1e-05, key=1, p=0.1} !fuse
  %z: bf16[6,4] = linear(%y, %w, _)
backward
  %dy: bf16[6,8] = linear_dx(%z, %w, _)
  %y.again: bf16[6,8], %da: bf16[6,8], %dg, %db, %dd: bf16[6,8] = layer_norm_with_backward(%a, %g, %b, %mean, %rstd, %dy, %x, %dg, %db, %rng) {key=1, p=0.1} !fuse
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %out = mul(%da, %dd)
)");
}

// Norms find the largest magnitudes for the codes made of their results: of y, of a gradient that
// is not dropped, and of a dropped one.
TEST(FuseLargest, AsksNorms) {
  const std::string tensors = R"(program p
  tensor %x: bf16[16,32] input persistent
  tensor %p: bf16[16,32] input persistent
  tensor %g: bf16[32] parameter persistent
  tensor %rng: i32[2] input persistent
  tensor %dg: f32[32] gradient persistent
  tensor %db: f32[32] gradient persistent
  tensor %a: e4m3[16,32] metric persistent
  tensor %b: e5m2[16,32] metric persistent
  tensor %c: e5m2[16,32] metric persistent
  tensor %d: e4m3[16,32] metric persistent
)";
  ExpectFused(FuseLargest, 4, tensors + R"(
forward
  %s: bf16[16,32], %y: bf16[16,32], %mean: f32[16], %rstd: f32[16] = add_layer_norm(%x, %p, %g, _) {eps=1e-05}
  %yl: f32[] = largest_magnitude(%y)
  _, %a, %as: f32[], _ = quantize(%y, %yl, _) {dtype="e4m3"}
backward
  %dx: bf16[16,32], %dg, %db = layer_norm_backward(%s, %g, %mean, %rstd, %p, _, %dg, %db)
  %dxl: f32[] = largest_magnitude(%dx)
  _, %b, %bs: f32[], _ = quantize(%dx, %dxl, _) {dtype="e5m2"}
  %z: bf16[16,32], _, _, _, %e: bf16[16,32] = layer_norm_with_backward(%s, %g, _, %mean, %rstd, %dx, _, _, _, %rng) {key=3, p=0.1}
  %el: f32[] = largest_magnitude(%e)
  _, %c, %cs: f32[], _ = quantize(%e, %el, _) {dtype="e5m2"}
  %zl: f32[] = largest_magnitude(%z)
  _, %d, %ds: f32[], _ = quantize(%z, %zl, _) {dtype="e4m3"}
)",
              tensors + R"(
forward
  %s: bf16[16,32], %y: bf16[16,32], %mean: f32[16], %rstd: f32[16], _, %yl: f32[] = add_layer_norm(%x, %p, %g, _) {eps=1e-05, largest=true}
  _, %a, %as: f32[], _ = quantize(%y, %yl, _) {dtype="e4m3"}
backward
  %dx: bf16[16,32], %dg, %db, _, %dxl: f32[], _ = layer_norm_backward(%s, %g, %mean, %rstd, %p, _, %dg, %db) {largest=true}
  _, %b, %bs: f32[], _ = quantize(%dx, %dxl, _) {dtype="e5m2"}
  %z: bf16[16,32], _, _, _, %e: bf16[16,32], %zl: f32[], _, %el: f32[] = layer_norm_with_backward(%s, %g, _, %mean, %rstd, %dx, _, _, _, %rng) {key=3, largest=true, p=0.1}
  _, %c, %cs: f32[], _ = quantize(%e, %el, _) {dtype="e5m2"}
  _, %d, %ds: f32[], _ = quantize(%z, %zl, _) {dtype="e4m3"}
)");
}

class NormDropout : public testing::TestWithParam<DType> {
 protected:
  TestTensor Normal(graph::Shape shape, int seed) { return NormalValues(GetParam(), shape, seed); }
  TestTensor Drop(const TestTensor& x) { return RunOp("dropout", {&x, &rng}, drop)[0]; }

  const TestTensor rng = Values(DType::kInt32, {2}, {7, 3});
  const graph::Attributes eps = {{"eps", 1e-5}}, drop = {{"p", 0.2}, {"key", int64_t{5}}};
  const graph::Attributes both = {{"eps", 1e-5}, {"p", 0.2}, {"key", int64_t{5}}};
  const TestTensor a = Normal({37, 45}, 1), b = Normal({37, 45}, 2), dy = Normal({37, 45}, 3);
  const TestTensor weight = Normal({45}, 4), bias = Normal({45}, 5);
};

TEST_P(NormDropout, HasTheBitsOfItsParts) {
  const TestTensor dropped = Drop(b);
  ExpectSameBits(RunOp("add_layer_norm", {&a, &b, &weight, &bias, &rng}, both),
                 RunOp("add_layer_norm", {&a, &dropped, &weight, &bias}, eps));
  ExpectSameBits(RunOp("add_rms_norm", {&a, &b, &weight, &rng}, both),
                 RunOp("add_rms_norm", {&a, &dropped, &weight}, eps));
}

TEST_P(NormDropout, GradientHasTheBitsOfItsParts) {
  const auto norm = RunOp("layer_norm", {&a, &weight, &bias}, eps);
  const std::vector<const TestTensor*> of = {&a,  &weight, &norm[1], &norm[2],
                                             &dy, &b,      nullptr,  nullptr};
  auto want = RunOp("layer_norm_backward", of);
  want.push_back(Drop(want[0]));
  auto with = of;
  with.push_back(&rng);
  ExpectSameBits(RunOp("layer_norm_backward", with, drop), want);
  with.insert(with.begin() + 2, &bias);
  want.insert(want.begin(), norm[0]);
  ExpectSameBits(RunOp("layer_norm_with_backward", with, drop), want);
}

TEST_P(NormDropout, RmsGradientHasTheBitsOfItsParts) {
  const auto norm = RunOp("rms_norm", {&a, &weight}, eps);
  auto want = RunOp("rms_norm_backward", {&a, &weight, &norm[1], &dy, &b, nullptr});
  want.push_back(Drop(want[0]));
  const std::vector<const TestTensor*> with = {&a, &weight, &norm[1], &dy, &b, nullptr, &rng};
  ExpectSameBits(RunOp("rms_norm_backward", with, drop), want);
  want.insert(want.begin(), norm[0]);
  ExpectSameBits(RunOp("rms_norm_with_backward", with, drop), want);
}

INSTANTIATE_TEST_SUITE_P(Types, NormDropout,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

}  // namespace
}  // namespace plimsoll::ops
