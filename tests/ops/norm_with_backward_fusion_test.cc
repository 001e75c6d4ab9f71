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
  tensor %w: bf16[4,8] parameter persistent
  tensor %g: bf16[8] parameter persistent
  tensor %b: bf16[8] parameter persistent
  tensor %dw: f32[4,8] gradient persistent
  tensor %dg: f32[8] gradient persistent
  tensor %db: f32[8] gradient persistent
)";

const std::string kForward = R"(
forward
  %h: bf16[6,8] = scale(%x) {factor=2.0}
  %y: bf16[6,8], %mean: f32[6], %rstd: f32[6] = layer_norm(%h, %g, %b) {eps=1e-05}
  %z: bf16[6,4] = linear(%y, %w, _)
)";

// The norm moves to its backward op, and the weight gradient, which reads the norm, moves behind
// it.
TEST(FuseRecomputedNorms, MakesTheNormWithItsBackward) {
  ExpectFused(FuseRecomputedNorms, 1, kTensors + kForward + R"(
recompute
  %y.again: bf16[6,8], _, _ = layer_norm(%h, %g, %b) {eps=1e-05} !recompute
backward
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %dh: bf16[6,8], %dg, %db = layer_norm_backward(%h, %g, %mean, %rstd, %dy, _, %dg, %db)
  %dx: bf16[6,8] = scale(%dh) {factor=2.0}
)",
              kTensors + kForward + R"(
backward
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %y.again: bf16[6,8], %dh: bf16[6,8], %dg, %db = layer_norm_with_backward(%h, %g, %b, %mean, %rstd, %dy, _, %dg, %db) !fuse
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dx: bf16[6,8] = scale(%dh) {factor=2.0}
)");
}

// A bucket of gradients is summed when its last gradient is ready.
TEST(FuseRecomputedNorms, TakesSumsAmongRanksAlong) {
  ExpectFused(FuseRecomputedNorms, 1, kTensors + kForward + R"(
recompute
  %y.again: bf16[6,8], _, _ = layer_norm(%h, %g, %b) {eps=1e-05} !recompute
backward
  %e: bf16[6,4] = scale(%z) {factor=2.0}
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %e.sum: bf16[6,4] = all_reduce_start(%e) {axis="data"}
  %dw = all_reduce_start(%dw) {axis="data"}
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %dh: bf16[6,8], %dg, %db = layer_norm_backward(%h, %g, %mean, %rstd, %dy, _, %dg, %db)
)",
              kTensors + kForward + R"(
backward
  %e: bf16[6,4] = scale(%z) {factor=2.0}
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %y.again: bf16[6,8], %dh: bf16[6,8], %dg, %db = layer_norm_with_backward(%h, %g, %b, %mean, %rstd, %dy, _, %dg, %db) !fuse
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %e.sum: bf16[6,4] = all_reduce_start(%e) {axis="data"}
  %dw = all_reduce_start(%dw) {axis="data"}
)");
}

TEST(FuseRecomputedNorms, OfRms) {
  const std::string forward = R"(
forward
  %h: bf16[6,8] = scale(%x) {factor=2.0}
  %y: bf16[6,8], %rstd: f32[6] = rms_norm(%h, %g) {eps=1e-05}
  %z: bf16[6,4] = linear(%y, %w, _)
)";
  ExpectFused(FuseRecomputedNorms, 1, kTensors + forward + R"(
recompute
  %y.again: bf16[6,8], _ = rms_norm(%h, %g) {eps=1e-05} !recompute
backward
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dh: bf16[6,8], %dg = rms_norm_backward(%h, %g, %rstd, %dy, %dy, %dg)
)",
              kTensors + forward + R"(
backward
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %y.again: bf16[6,8], %dh: bf16[6,8], %dg = rms_norm_with_backward(%h, %g, %rstd, %dy, %dy, %dg) !fuse
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
)");
}

// Both multiply by 1 + weight, or neither.
TEST(FuseRecomputedNorms, KeepsTheUnitOffset) {
  const auto forward = [](const std::string& again, const std::string& offset) {
    return kTensors + R"(
forward
  %h: bf16[6,8] = scale(%x) {factor=2.0}
  %y: bf16[6,8], %rstd: f32[6] = rms_norm(%h, %g) {eps=1e-05, unit_offset=true}
  %z: bf16[6,4] = linear(%y, %w, _)
recompute
  %y.again: bf16[6,8], _ = rms_norm(%h, %g) {)" +
           again + R"(} !recompute
backward
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dh: bf16[6,8], %dg = rms_norm_backward(%h, %g, %rstd, %dy, %dy, %dg))" +
           offset;
  };
  ExpectFused(FuseRecomputedNorms, 1,
              forward("eps=1e-05, unit_offset=true", " {unit_offset=true}\n"), kTensors + R"(
forward
  %h: bf16[6,8] = scale(%x) {factor=2.0}
  %y: bf16[6,8], %rstd: f32[6] = rms_norm(%h, %g) {eps=1e-05, unit_offset=true}
  %z: bf16[6,4] = linear(%y, %w, _)
backward
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %y.again: bf16[6,8], %dh: bf16[6,8], %dg = rms_norm_with_backward(%h, %g, %rstd, %dy, %dy, %dg) {unit_offset=true} !fuse
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
)");
  const std::string differ = forward("eps=1e-05, unit_offset=true", "\n");
  ExpectFused(FuseRecomputedNorms, 0, differ, differ);
}

// The norm of the forward pass keeps the statistics that were recomputed.
TEST(FuseRecomputedNorms, KeepsStatistics) {
  ExpectFused(FuseRecomputedNorms, 1, kTensors + R"(
forward
  %h: bf16[6,8], %y: bf16[6,8], _, _ = add_layer_norm(%x, %x, %g, %b) {eps=1e-05}
  %z: bf16[6,4] = linear(%y, %w, _)
recompute
  %y.again: bf16[6,8], %mean.again: f32[6], %rstd.again: f32[6] = layer_norm(%h, %g, %b) {eps=1e-05} !recompute
backward
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %dh: bf16[6,8], %dg, %db = layer_norm_backward(%h, %g, %mean.again, %rstd.again, %dy, _, %dg, %db)
)",
              kTensors + R"(
forward
  %h: bf16[6,8], %y: bf16[6,8], %mean.again: f32[6], %rstd.again: f32[6] = add_layer_norm(%x, %x, %g, %b) {eps=1e-05}
  %z: bf16[6,4] = linear(%y, %w, _)
backward
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %y.again: bf16[6,8], %dh: bf16[6,8], %dg, %db = layer_norm_with_backward(%h, %g, %b, %mean.again, %rstd.again, %dy, _, %dg, %db) !fuse
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
)");
}

// A reader whose result the gradient needs; statistics computed with another eps.
TEST(FuseRecomputedNorms, LeavesOthers) {
  const std::string first = kTensors + kForward + R"(
recompute
  %y.again: bf16[6,8], _, _ = layer_norm(%h, %g, %b) {eps=1e-05} !recompute
backward
  %dy: bf16[6,8] = mul(%y.again, %x)
  %dh: bf16[6,8], %dg, %db = layer_norm_backward(%h, %g, %mean, %rstd, %dy, _, %dg, %db)
)";
  Program program = Parse(first);
  EXPECT_EQ(FuseRecomputedNorms(program), 0);
  ExpectProgram(program, first);

  const std::string second = kTensors + kForward + R"(
recompute
  %y.again: bf16[6,8], _, _ = layer_norm(%h, %g, %b) {eps=1e-06} !recompute
backward
  %dw, _ = linear_dw(%y.again, %z, %dw, _) {bias=false}
  %dy: bf16[6,8] = linear_dx(%z, %w)
  %dh: bf16[6,8], %dg, %db = layer_norm_backward(%h, %g, %mean, %rstd, %dy, _, %dg, %db)
)";
  program = Parse(second);
  EXPECT_EQ(FuseRecomputedNorms(program), 0);
  ExpectProgram(program, second);
}

TEST(NormWithBackward, HasTheBitsOfItsParts) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const TestTensor x = NormalValues(dtype, {37, 45}, 1), dy = NormalValues(dtype, {37, 45}, 2);
    const TestTensor weight = NormalValues(dtype, {45}, 3), bias = NormalValues(dtype, {45}, 4);
    const graph::Attributes eps = {{"eps", 1e-5}};
    const auto norm = RunOp("layer_norm", {&x, &weight, &bias}, eps);
    const auto gradients = RunOp("layer_norm_backward",
                                 {&x, &weight, &norm[1], &norm[2], &dy, nullptr, nullptr, nullptr});
    const auto both = RunOp("layer_norm_with_backward", {&x, &weight, &bias, &norm[1], &norm[2],
                                                         &dy, nullptr, nullptr, nullptr});
    ExpectSameBits(both[0], norm[0]);
    for (size_t i = 0; i < gradients.size(); ++i) ExpectSameBits(both[1 + i], gradients[i]);

    for (const graph::Attributes& offset :
         {graph::Attributes{}, graph::Attributes{{"unit_offset", true}}}) {
      graph::Attributes own = offset;
      own.Set("eps", 1e-5);
      const auto rms = RunOp("rms_norm", {&x, &weight}, own);
      const std::vector<const TestTensor*> inputs = {&x, &weight, &rms[1], &dy, &x, nullptr};
      const auto rms_gradients = RunOp("rms_norm_backward", inputs, offset);
      const auto rms_both = RunOp("rms_norm_with_backward", inputs, offset);
      ExpectSameBits(rms_both[0], rms[0]);
      for (size_t i = 0; i < rms_gradients.size(); ++i)
        ExpectSameBits(rms_both[1 + i], rms_gradients[i]);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
