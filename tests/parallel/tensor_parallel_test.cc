// Golden tests of the passes `tensor_parallel` and `tensor_gradients`: a small GPT-2 of one block,
// split between two ranks.
#include "parallel/tensor_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "graph/autodiff.h"
#include "graph/step_shape.h"
#include "parallel/tensor_gradients.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::parallel {
namespace {

using graph::Parse;
using graph::Program;
using graph::TensorId;

// B 2, T 3, D 8, two heads, F 16, V 10.
constexpr char kForward[] = R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %norm: f32[8] parameter persistent
  tensor %qkv: f32[24,8] parameter persistent
  tensor %qkv.bias: f32[24] parameter persistent
  tensor %proj: f32[8,8] parameter persistent
  tensor %proj.bias: f32[8] parameter persistent
  tensor %fc: f32[16,8] parameter persistent
  tensor %out: f32[8,16] parameter persistent
  tensor %targets: i32[2,3] input persistent
  tensor %weight: f32[] input persistent
  tensor %rng: i32[2] input persistent
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _)
  %n: f32[2,3,8], _ = rms_norm(%x, %norm) {eps=1e-05}
  %a: f32[2,3,24] = linear(%n, %qkv, %qkv.bias)
  %h: f32[2,3,8], _ = attention(%a, %rng) {causal=true, dropout=0.1, heads=2, key=3, kv_heads=2}
  %p: f32[2,3,8] = linear(%h, %proj, %proj.bias)
  %d: f32[2,3,8] = dropout(%p, %rng) {key=5, p=0.1}
  %r: f32[2,3,8] = add(%x, %d)
  %f: f32[2,3,16] = linear(%r, %fc, _)
  %g: f32[2,3,16] = gelu(%f) {approximate="tanh"}
  %o: f32[2,3,8] = linear(%g, %out, _)
  %s: f32[2,3,8] = add(%r, %o)
  %loss: f32[] metric, _ = linear_cross_entropy(%s, %table, %targets, %weight)
)";

TensorParallelOptions Options(bool sequence) {
  using Part = ParameterPart;
  return {2,
          sequence,
          {{"table", {Part::kRows, {5, 8}}},
           {"qkv", {Part::kRows, {12, 8}}},
           {"qkv.bias", {Part::kRows, {12}}},
           {"proj", {Part::kColumns, {8, 4}}},
           {"fc", {Part::kRows, {8, 8}}},
           {"out", {Part::kColumns, {8, 8}}}}};
}

TEST(TensorParallel, SplitLayersSumTheirPartsAndTheirInputsGradients) {
  Program program = Parse(kForward);
  const graph::PassResult result = TensorParallel(Options(false)).Run(program);
  EXPECT_EQ(result.summary, "6 parameters shared by 2 ranks, 3 sums among them");
  graph::ExpectProgram(program, R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[5,8] parameter persistent
  tensor %norm: f32[8] parameter persistent
  tensor %qkv: f32[12,8] parameter persistent
  tensor %qkv.bias: f32[12] parameter persistent
  tensor %proj: f32[8,4] parameter persistent
  tensor %proj.bias: f32[8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %out: f32[8,8] parameter persistent
  tensor %targets: i32[2,3] input persistent
  tensor %weight: f32[] input persistent
  tensor %rng: i32[2] input persistent
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _) {axis="tensor"}
  %x.sum: f32[2,3,8] = all_reduce_start(%x) {axis="tensor"} !tensor_parallel
  %x.sum.2: f32[2,3,8] view %x.sum+0 = all_reduce_done(%x.sum) !tensor_parallel
  %n: f32[2,3,8], _ = rms_norm(%x.sum.2, %norm) {eps=1e-05}
  %n.whole: f32[2,3,8] view %n+0 = sum_gradient(%n) {axis="tensor"} !tensor_parallel
  %a: f32[2,3,12] = linear(%n.whole, %qkv, %qkv.bias)
  %h: f32[2,3,4], _ = attention(%a, %rng) {axis="tensor", causal=true, dropout=0.1, heads=1, key=3, kv_heads=1}
  %p: f32[2,3,8] = linear(%h, %proj, %proj.bias) {axis="tensor"}
  %p.sum: f32[2,3,8] = all_reduce_start(%p) {axis="tensor"} !tensor_parallel
  %p.sum.2: f32[2,3,8] view %p.sum+0 = all_reduce_done(%p.sum) !tensor_parallel
  %d: f32[2,3,8] = dropout(%p.sum.2, %rng) {key=5, p=0.1}
  %r: f32[2,3,8] = add(%x.sum.2, %d)
  %r.whole: f32[2,3,8] view %r+0 = sum_gradient(%r) {axis="tensor"} !tensor_parallel
  %f: f32[2,3,8] = linear(%r.whole, %fc, _)
  %g: f32[2,3,8] = gelu(%f) {approximate="tanh"}
  %o: f32[2,3,8] = linear(%g, %out, _)
  %o.sum: f32[2,3,8] = all_reduce_start(%o) {axis="tensor"} !tensor_parallel
  %o.sum.2: f32[2,3,8] view %o.sum+0 = all_reduce_done(%o.sum) !tensor_parallel
  %s: f32[2,3,8] = add(%r, %o.sum.2)
  %s.whole: f32[2,3,8] view %s+0 = sum_gradient(%s) {axis="tensor"} !tensor_parallel
  %loss: f32[] metric, _ = linear_cross_entropy(%s.whole, %table, %targets, %weight) {axis="tensor"}
)");
}

TEST(TensorParallel, WithSequenceRanksShareTheRowsBetweenSplitLayers) {
  graph::ExpectPass(TensorParallel(Options(true)), kForward, R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[5,8] parameter persistent
  tensor %norm: f32[8] parameter persistent
  tensor %qkv: f32[12,8] parameter persistent
  tensor %qkv.bias: f32[12] parameter persistent
  tensor %proj: f32[8,4] parameter persistent
  tensor %proj.bias: f32[8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %out: f32[8,8] parameter persistent
  tensor %targets: i32[2,3] input persistent
  …
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _) {axis="tensor"}
  %x.sum: f32[3,8] = reduce_scatter_start(%x) {axis="tensor", d0=3, d1=8, rank=2} !tensor_parallel
  %x.sum.2: f32[3,8] view %x.sum+0 = reduce_scatter_done(%x.sum, %x) !tensor_parallel
  %n: f32[3,8], _ = rms_norm(%x.sum.2, %norm) {eps=1e-05}
  %n.whole: f32[2,3,8] = all_gather_start(%n) {axis="tensor", d0=2, d1=3, d2=8, rank=3} !tensor_parallel
  %n.whole.2: f32[2,3,8] view %n.whole+0 = all_gather_done(%n.whole, %n) !tensor_parallel
  %a: f32[2,3,12] = linear(%n.whole.2, %qkv, %qkv.bias)
  %h: f32[2,3,4], _ = attention(%a, %rng) {axis="tensor", causal=true, dropout=0.1, heads=1, key=3, kv_heads=1}
  %p: f32[2,3,8] = linear(%h, %proj, %proj.bias) {axis="tensor"}
  %p.sum: f32[3,8] = reduce_scatter_start(%p) {axis="tensor", d0=3, d1=8, rank=2} !tensor_parallel
  %p.sum.2: f32[3,8] view %p.sum+0 = reduce_scatter_done(%p.sum, %p) !tensor_parallel
  %d: f32[3,8] = dropout(%p.sum.2, %rng) {axis="tensor", key=5, p=0.1}
  %r: f32[3,8] = add(%x.sum.2, %d)
  %r.whole: f32[2,3,8] = all_gather_start(%r) {axis="tensor", d0=2, d1=3, d2=8, rank=3} !tensor_parallel
  %r.whole.2: f32[2,3,8] view %r.whole+0 = all_gather_done(%r.whole, %r) !tensor_parallel
  %f: f32[2,3,8] = linear(%r.whole.2, %fc, _)
  %g: f32[2,3,8] = gelu(%f) {approximate="tanh"}
  %o: f32[2,3,8] = linear(%g, %out, _)
  %o.sum: f32[3,8] = reduce_scatter_start(%o) {axis="tensor", d0=3, d1=8, rank=2} !tensor_parallel
  %o.sum.2: f32[3,8] view %o.sum+0 = reduce_scatter_done(%o.sum, %o) !tensor_parallel
  %s: f32[3,8] = add(%r, %o.sum.2)
  %s.whole: f32[2,3,8] = all_gather_start(%s) {axis="tensor", d0=2, d1=3, d2=8, rank=3} !tensor_parallel
  %s.whole.2: f32[2,3,8] view %s.whole+0 = all_gather_done(%s.whole, %s) !tensor_parallel
  %loss: f32[] metric, _ = linear_cross_entropy(%s.whole.2, %table, %targets, %weight) {axis="tensor"}
)");
}

TEST(TensorParallel, PositionsOfDocumentsAreThoseOfAllHeads) {
  Program program = Parse(R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %positions: i32[2,3] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %place: f32[3,8] parameter persistent
  tensor %qkv: f32[24,8] parameter persistent
  tensor %proj: f32[8,8] parameter persistent
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, %place, _, %positions)
  %a: f32[2,3,24] = linear(%x, %qkv, _)
  %r: f32[2,3,24] = rotary(%a, _, %positions) {heads=2, inverse=false, kv_heads=2, theta=10000.0}
  %h: f32[2,3,8], _ = attention(%r, _, _, %positions) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2, window=2}
  %p: f32[2,3,8] = linear(%h, %proj, _)
)");
  TensorParallel(Options(false)).Run(program);
  const TensorId positions = program.Require("positions");
  std::map<std::string, std::string> read;  // attributes of the ops that read them
  for (const graph::Node& node : program.nodes()) {
    if (std::ranges::find(node.inputs, positions) == node.inputs.end()) continue;
    for (const char* name : {"heads", "kv_heads", "window"}) {
      if (!node.attributes.Has(name)) continue;
      read[node.op->name] += std::to_string(node.attributes.GetInt(name)) + " ";
    }
    read.try_emplace(node.op->name);
  }
  EXPECT_EQ(read, (std::map<std::string, std::string>{
                      {"embedding", ""}, {"rotary", "1 1 "}, {"attention", "1 1 2 "}}));
}

TEST(TensorParallel, WhatOutlivesTheProgramIsWhole) {
  graph::ExpectPass(TensorParallel(Options(false)), R"(program logits
  tensor %x: f32[2,8] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %logits: f32[2,10] metric persistent
forward
  %logits = linear(%x, %table, _)
)",
                    R"(program logits
  tensor %x: f32[2,8] input persistent
  tensor %table: f32[5,8] parameter persistent
  tensor %logits: f32[2,10] metric persistent
forward
  %x.whole: f32[2,8] view %x+0 = sum_gradient(%x) {axis="tensor"} !tensor_parallel
  %logits.part: f32[2,5] = linear(%x.whole, %table, _)
  %logits = place_columns(%logits.part) {axis="tensor", ranks=2} !tensor_parallel
  %logits = all_reduce_start(%logits) {axis="tensor"} !tensor_parallel
  %logits.sum: f32[2,10] view %logits+0 = all_reduce_done(%logits) !tensor_parallel
)");
}

// The gradient of a gather is a scatter; that of a sum is passed on unchanged.
TEST(TensorParallel, CollectivesHaveGradients) {
  constexpr char kLayer[] = R"(program train
  tensor %x: f32[4,8] parameter persistent
  tensor %fc: f32[16,8] parameter persistent
  tensor %out: f32[8,16] parameter persistent
forward
  %f: f32[4,16] = linear(%x, %fc, _)
  %o: f32[4,8] = linear(%f, %out, _)
  %loss: f32[] = sum(%o)
)";
  Program program = Parse(kLayer);
  TensorParallel(Options(false)).Run(program);
  graph::Autodiff({}).Run(program);
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[4,8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %out: f32[8,8] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %x.whole: f32[4,8] view %x+0 = sum_gradient(%x) {axis="tensor"} !tensor_parallel
  %f: f32[4,8] = linear(%x.whole, %fc, _)
  %o: f32[4,8] = linear(%f, %out, _)
  %o.sum: f32[4,8] = all_reduce_start(%o) {axis="tensor"} !tensor_parallel
  %o.sum.2: f32[4,8] view %o.sum+0 = all_reduce_done(%o.sum) !tensor_parallel
  %loss = sum(%o.sum.2)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[4,8] = fill() {d0=4, d1=8, dtype="f32", rank=2, value=1.0} !autodiff
  %scale_by: f32[4,8] = scale_by(%fill, %loss.seed) !autodiff
  %out.grad: f32[8,8] gradient of %out as gradient, _ = linear_dw(%f, %scale_by, _, _) {bias=false} !autodiff
  %linear_dx: f32[4,8] = linear_dx(%scale_by, %out, _) !autodiff
  %fc.grad: f32[8,8] gradient of %fc as gradient, _ = linear_dw(%x.whole, %linear_dx, _, _) {bias=false} !autodiff
  %linear_dx.2: f32[4,8] = linear_dx(%linear_dx, %fc, _) !autodiff
  %all_reduce_start: f32[4,8] = all_reduce_start(%linear_dx.2) {axis="tensor"} !autodiff
  %all_reduce_done: f32[4,8] view %all_reduce_start+0 = all_reduce_done(%all_reduce_start) !autodiff
  %x.grad: f32[4,8] gradient of %x as gradient = scale(%all_reduce_done) {factor=1.0} !autodiff
)");
}

TEST(TensorParallel, RefusesASplitTensorThatIsNeededWhole) {
  Program program = Parse(R"(program p
  tensor %x: f32[2,8] input persistent
  tensor %fc: f32[16,8] parameter persistent
  tensor %weight: f32[16] parameter persistent
forward
  %f: f32[2,16] = linear(%x, %fc, _) @mlp
  %y: f32[2,16], _ = rms_norm(%f, %weight) {eps=1e-05} @mlp
)");
  EXPECT_EQ(MessageOf<InternalError>([&] { TensorParallel(Options(false)).Run(program); }),
            "tensor_parallel: rms_norm @mlp needs whole rows");
}

// The norm's input was split by rows; the table is split.
constexpr char kUpdate[] = R"(program train
  tensor %table: f32[5,8] parameter persistent
  tensor %norm: f32[8] parameter persistent
  tensor %bias: f32[8] parameter persistent
  tensor %x: f32[6,8] input persistent
  tensor %grad_norm: f32[] metric persistent
forward
  %part: f32[3,8] = reduce_scatter_start(%x) {axis="tensor", d0=3, d1=8, rank=2}
  %rows: f32[3,8] view %part+0 = reduce_scatter_done(%part, %x)
  %n: f32[3,8], _ = rms_norm(%rows, %norm) {eps=1e-05}
  %all: f32[6,8] = all_gather_start(%n) {axis="tensor", d0=6, d1=8, rank=2}
  %whole: f32[6,8] view %all+0 = all_gather_done(%all, %n)
  %y: f32[6,5] = linear(%whole, %table, _)
backward
  %table.grad: f32[5,8] gradient of %table as gradient = scale(%table) {factor=2.0}
  %norm.grad: f32[8] gradient of %norm as gradient = scale(%norm) {factor=2.0}
  %bias.grad: f32[8] gradient of %bias as gradient = scale(%bias) {factor=2.0}
)";

TEST(TensorGradients, SumsThoseOfRowsAndCountsEachPartOnce) {
  Program program = Parse(std::string(kUpdate) + R"(update
  %grad_norm = global_norm(%table.grad, %norm.grad, %bias.grad)
)");
  EXPECT_EQ(TensorGradients(Options(true)).Run(program).summary,
            "1 gradient summed, those of 1 split parameter in one norm");
  std::map<TensorId, TensorId> gradients = graph::GradientsOf(program);
  EXPECT_EQ(gradients[program.Require("norm")], program.Require("norm.grad.summed"));
  EXPECT_EQ(gradients[program.Require("bias")], program.Require("bias.grad"));
  graph::ExpectProgram(program, R"(program train
  …
forward
  …
backward
  …
  %norm.grad.sum: f32[8] gradient = all_reduce_start(%norm.grad) {axis="tensor"} !tensor_gradients
  %norm.grad.summed: f32[8] gradient of %norm as gradient view %norm.grad.sum+0 = all_reduce_done(%norm.grad.sum) !tensor_gradients
update
  %split_norm: f32[] = global_norm(%table.grad) !tensor_gradients
  %split_norms: f32[2] = all_gather_start(%split_norm) {axis="tensor", d0=2, rank=1} !tensor_gradients
  %split_norms.2: f32[2] view %split_norms+0 = all_gather_done(%split_norms, %split_norm) !tensor_gradients
  %grad_norm = global_norm(%split_norms.2, %norm.grad.summed, %bias.grad)
)",
                       kUpdate);
}

// Weights that all heads share: each rank has the gradient of its own heads.
TEST(TensorGradients, SumsThoseOfWeightsOfAllHeads) {
  Program program = Parse(R"(program train
  tensor %x: f32[2,3,8] input persistent
  tensor %qkv: f32[16,8] parameter persistent
  tensor %q_norm: f32[2] parameter persistent
  tensor %k_norm: f32[2] parameter persistent
forward
  %a: f32[2,3,16] = linear(%x, %qkv, _)
  %n: f32[2,3,16], _ = qk_norm(%a, %q_norm, %k_norm) {eps=1e-06, heads=4, kv_heads=2}
)");
  const TensorParallelOptions options{2, false, {{"qkv", {ParameterPart::kRows, {8, 8}}}}};
  TensorParallel(options).Run(program);
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[2,3,8] input persistent
  tensor %qkv: f32[8,8] parameter persistent
  tensor %q_norm: f32[2] parameter persistent
  tensor %k_norm: f32[2] parameter persistent
forward
  %x.whole: f32[2,3,8] view %x+0 = sum_gradient(%x) {axis="tensor"} !tensor_parallel
  %a: f32[2,3,8] = linear(%x.whole, %qkv, _)
  %n: f32[2,3,8], _ = qk_norm(%a, %q_norm, %k_norm) {axis="tensor", eps=1e-06, heads=2, kv_heads=1}
)");
  // The same as parts of a step.
  program = Parse(R"(program train
  tensor %a: f32[2,3,8] input persistent
  tensor %q_norm: f32[2] parameter persistent
  tensor %k_norm: f32[2] parameter persistent
  tensor %dn: f32[2,3,8] input persistent
  tensor %grad_norm: f32[] metric persistent
forward
  %n: f32[2,3,8], %rstd: f32[2,3,3] = qk_norm(%a, %q_norm, %k_norm) {axis="tensor", eps=1e-06, heads=2, kv_heads=1}
backward
  _, %q_norm.grad: f32[2] gradient of %q_norm as gradient, %k_norm.grad: f32[2] gradient of %k_norm as gradient = qk_norm_backward(%a, %q_norm, %k_norm, %rstd, %dn, _, _) {heads=2, kv_heads=1}
update
  %grad_norm = global_norm(%q_norm.grad, %k_norm.grad)
)");
  EXPECT_EQ(TensorGradients(options).Run(program).summary,
            "2 gradients summed, those of 0 split parameters in one norm");
  std::map<TensorId, TensorId> gradients = graph::GradientsOf(program);
  EXPECT_EQ(gradients[program.Require("q_norm")], program.Require("q_norm.grad.summed"));
  EXPECT_EQ(gradients[program.Require("k_norm")], program.Require("k_norm.grad.summed"));
}

TEST(TensorGradients, MicroStepsWithoutAnUpdateStayAsTheyAre) {
  Program program = Parse(kUpdate);
  EXPECT_FALSE(TensorGradients(Options(true)).Run(program).changed);
  graph::ExpectProgram(program, kUpdate);
}

}  // namespace
}  // namespace plimsoll::parallel
