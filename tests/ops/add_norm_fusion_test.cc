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

const std::string kTensors = R"(program p
  tensor %x: bf16[6,8] input persistent
  tensor %p: bf16[6,8] input persistent
  tensor %g: bf16[8] parameter persistent
  tensor %b: bf16[8] parameter persistent
  tensor %carried: bf16[6,8] state persistent
)";

TEST(FuseAddNorm, JoinsASumWithItsNorm) {
  ExpectFused(FuseAddNorm, 2, kTensors + R"(
forward
  %a: bf16[6,8] = add(%x, %p) @block.0
  %y: bf16[6,8], %y.mean: f32[6], %y.rstd: f32[6] = layer_norm(%a, %g, %b) {eps=1e-05} @block.1
  %c: bf16[6,8] = add(%a, %y) @block.1
  %z: bf16[6,8], _ = rms_norm(%c, %g) {eps=1e-06, unit_offset=true} @block.2
  %out: bf16[6,8] = mul(%c, %z)
)",
              kTensors + R"(
forward
  %a: bf16[6,8], %y: bf16[6,8], %y.mean: f32[6], %y.rstd: f32[6] = add_layer_norm(%x, %p, %g, %b) {eps=1e-05} @block.1 !fuse
  %c: bf16[6,8], %z: bf16[6,8], _ = add_rms_norm(%a, %y, %g) {eps=1e-06, unit_offset=true} @block.2 !fuse
  %out: bf16[6,8] = mul(%c, %z)
)");
}

// A recomputed norm reads the sum if it was kept; otherwise the sum is recomputed with it.
TEST(FuseAddNorm, OfWhatIsComputedAgain) {
  ExpectFused(FuseAddNorm, 2, kTensors + R"(
forward
  %a: bf16[6,8] = add(%x, %p)
  %y: bf16[6,8], _, _ = layer_norm(%a, %g, _) {eps=1e-05}
  %c: bf16[6,8] = add(%a, %y)
recompute
  %y.again: bf16[6,8], _, _ = layer_norm(%a, %g, _) {eps=1e-05} !recompute
  %c.again: bf16[6,8] = add(%a, %y.again) !recompute
  %z.again: bf16[6,8], _, _ = layer_norm(%c.again, %g, _) {eps=1e-05} !recompute
backward
  %d: bf16[6,8] = mul(%c, %z.again)
)",
              kTensors + R"(
forward
  %a: bf16[6,8], %y: bf16[6,8], _, _ = add_layer_norm(%x, %p, %g, _) {eps=1e-05} !fuse
  %c: bf16[6,8] = add(%a, %y)
recompute
  %y.again: bf16[6,8], _, _ = layer_norm(%a, %g, _) {eps=1e-05} !recompute
  %c.again: bf16[6,8], %z.again: bf16[6,8], _, _ = add_layer_norm(%a, %y.again, %g, _) {eps=1e-05} !fuse
backward
  %d: bf16[6,8] = mul(%c, %z.again)
)");
}

// Another node between them, other phases, a sum that outlives the program, a sum that is the
// weight.
TEST(FuseAddNorm, LeavesOthers) {
  const std::string text = R"(
forward
  %a: bf16[6,8] = add(%x, %p)
  %s: bf16[6,8] = scale(%a) {factor=2.0}
  %y: bf16[6,8], _, _ = layer_norm(%a, %g, _) {eps=1e-05}
  %carried = add(%x, %y)
  %z: bf16[6,8], _, _ = layer_norm(%carried, %g, _) {eps=1e-05}
  %w: bf16[8] = add(%g, %b)
  %v: bf16[8], _, _ = layer_norm(%w, %w, _) {eps=1e-05}
  %q: bf16[6,8] = add(%s, %z)
backward
  %r: bf16[6,8], _, _ = layer_norm(%q, %v, _) {eps=1e-05}
  %t: bf16[6,8] = mul(%q, %r)
)";
  ExpectFused(FuseAddNorm, 0, kTensors + text, kTensors + text);
}

TEST(AddNorm, HasTheBitsOfItsParts) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const TestTensor a = NormalValues(dtype, {37, 45}, 1), b = NormalValues(dtype, {37, 45}, 2);
    const TestTensor weight = NormalValues(dtype, {45}, 3), bias = NormalValues(dtype, {45}, 4);
    const graph::Attributes eps = {{"eps", 1e-5}};
    const TestTensor sum = RunOp("add", {&a, &b})[0];
    const auto layer = RunOp("layer_norm", {&sum, &weight, &bias}, eps);
    const auto fused = RunOp("add_layer_norm", {&a, &b, &weight, &bias}, eps);
    ExpectSameBits(fused[0], sum);
    for (size_t i = 0; i < layer.size(); ++i) ExpectSameBits(fused[1 + i], layer[i]);
    for (const graph::Attributes& own :
         {eps, graph::Attributes{{"eps", 1e-5}, {"unit_offset", true}}}) {
      const auto rms = RunOp("rms_norm", {&sum, &weight}, own);
      const auto fused_rms = RunOp("add_rms_norm", {&a, &b, &weight}, own);
      ExpectSameBits(fused_rms[0], sum);
      for (size_t i = 0; i < rms.size(); ++i) ExpectSameBits(fused_rms[1 + i], rms[i]);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
