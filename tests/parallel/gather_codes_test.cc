// Golden tests of gathering codes of weights in place of their 16 bits.
#include "parallel/gather_codes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "checkpointing/saved.h"
#include "graph/companions.h"
#include "graph/micro_steps.h"
#include "graph/simplify.h"
#include "graph/step_passes.h"
#include "parallel/zero_parameters.h"
#include "parallel/zero_shards.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using graph::Parse;
using graph::Program;

// Two layers after ZeroParameters: the first weight is read as codes alone, the second one, tied,
// also by a layer in 16 bits.
constexpr std::string_view kTied = R"(program train
  tensor %x: bf16[16,32] input persistent
  tensor %one: f32[] input persistent
  tensor %w: bf16[512] parameter persistent
  tensor %tied: bf16[512] parameter persistent
  tensor %h: bf16[16,32] metric persistent
  tensor %y: bf16[16,32] metric persistent
  tensor %dx: bf16[16,32] metric persistent
  tensor %counts: f32[3] metric persistent
forward
  _, %x.codes: e4m3[16,32], %x.scale: f32[], _ = quantize(%x, %one, _) {dtype="e4m3"} @block.0
  %w.gathered: bf16[32,32] = all_gather_start(%w) {axis="data", d0=32, d1=32, rank=2} @w !zero_parameters
  %w.whole: bf16[32,32] view %w.gathered+0 = all_gather_done(%w.gathered, %w) @w !zero_parameters
  %w.largest: f32[] = largest_magnitude(%w.whole) @block.0 !fp8_products
  %w.codes_t: e4m3[32,32], %w.codes: e4m3[32,32], %w.scale: f32[], _ = quantize(%w.whole, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %counts = count_codes(%w.whole, %w.scale) {dtype="e4m3", weight=0.25} @block.0 !fp8_products
  %h = scaled_linear(%x.codes, %w.codes, %x.scale, %w.scale) {dtype="bf16", fast=true} @block.0 !fp8_products
  %tied.gathered: bf16[32,32] = all_gather_start(%tied) {axis="data", d0=32, d1=32, rank=2} @tied !zero_parameters
  %tied.whole: bf16[32,32] view %tied.gathered+0 = all_gather_done(%tied.gathered, %tied) @tied !zero_parameters
  %tied.largest: f32[] = largest_magnitude(%tied.whole) @block.1 !fp8_products
  _, %tied.codes: e4m3[32,32], %tied.scale: f32[], _ = quantize(%tied.whole, %tied.largest, _) {dtype="e4m3"} @block.1 !fp8_products
  %z: bf16[16,32] = scaled_linear(%x.codes, %tied.codes, %x.scale, %tied.scale) {dtype="bf16", fast=true} @block.1 !fp8_products
  %y = linear(%z, %tied.whole) @head
backward
  %w.codes_t.2: e4m3[32,32], %w.codes.2: e4m3[32,32], %w.scale.2: f32[], _ = quantize(%w.whole, %w.largest, _) {dtype="e4m3"} @block.0 !fp8_products
  %dx = scaled_linear(%x.codes, %w.codes_t.2, %x.scale, %w.scale.2) {dtype="bf16"} @block.0 !fp8_products
)";

TEST(GatherCodes, OfWeightsThatNothingElseReads) {
  Program program = Parse(kTied);
  EXPECT_EQ(GatherCodes().Run(program).summary, "codes of 1 weight gathered, 1.00 KiB");
  graph::Simplify().Run(program);
  graph::ExpectProgram(program, R"(program train
  …
  tensor %counts: f32[3] metric persistent
  tensor %fp8_weights: f32[1] activation persistent
forward
  %fp8_weights.w.own: f32[] = largest_magnitude(%w) @fp8_weights !gather_codes
  %fp8_weights = stack(%fp8_weights.w.own) @fp8_weights !gather_codes
  %fp8_weights = all_reduce_start(%fp8_weights) {axis="data", reduction="max"} @fp8_weights !gather_codes
  %fp8_weights.all: f32[1] view %fp8_weights+0 = all_reduce_done(%fp8_weights) @fp8_weights !gather_codes
  %fp8_weights.w: f32[] view %fp8_weights.all+0 = slice(%fp8_weights.all) {first=0, rank=0} @fp8_weights !gather_codes
  _, %x.codes: e4m3[16,32], %x.scale: f32[], _ = quantize(%x, %one, _) {dtype="e4m3"} @block.0
  _, %w.codes.own: e4m3[512] parameter, %w.scale: f32[], _ = quantize(%w, %fp8_weights.w, _) {dtype="e4m3"} @w !gather_codes
  %w.gathered: e4m3[32,32] = all_gather_start(%w.codes.own) {axis="data", d0=32, d1=32, rank=2} @w !zero_parameters
  %w.whole: e4m3[32,32] view %w.gathered+0 = all_gather_done(%w.gathered, %w.codes.own) @w !zero_parameters
  %counts = count_codes(%w, %w.scale) {dtype="e4m3", weight=0.5} @block.0 !fp8_products
  %h = scaled_linear(%x.codes, %w.whole, %x.scale, %w.scale) {dtype="bf16", fast=true} @block.0 !fp8_products
  %tied.gathered: bf16[32,32] = all_gather_start(%tied) {axis="data", d0=32, d1=32, rank=2} @tied !zero_parameters
  …
  %y = linear(%z, %tied.whole) @head
backward
  %w.codes_t.2: e4m3[32,32] = transpose_codes(%w.whole) @block.0 !gather_codes
  %dx = scaled_linear(%x.codes, %w.codes_t.2, %x.scale, %w.scale) {dtype="bf16"} @block.0 !fp8_products
)",
                       kTied);
  const std::map<std::string, graph::Shape> gathered = {{"tied", {32, 32}}, {"w", {32, 32}}};
  EXPECT_EQ(GatheredParameters(program), gathered);
}

// Two blocks of one layer each.
constexpr std::string_view kBlocks = R"(program train
  tensor %x: bf16[16,32] input persistent
  tensor %block.0.w: bf16[512] parameter persistent
  tensor %block.1.w: bf16[512] parameter persistent
  tensor %dx: bf16[16,32] metric persistent
forward
  %x.largest: f32[] = largest_magnitude(%x) @block.0
  _, %x.codes: e4m3[16,32], %x.scale: f32[], _ = quantize(%x, %x.largest, _) {dtype="e4m3"} @block.0
  %a.gathered: bf16[32,32] = all_gather_start(%block.0.w) {axis="data", d0=32, d1=32, rank=2} @block.0.w
  %a.whole: bf16[32,32] view %a.gathered+0 = all_gather_done(%a.gathered, %block.0.w) @block.0.w
  %a.largest: f32[] = largest_magnitude(%a.whole) @block.0
  _, %a.codes: e4m3[32,32], %a.scale: f32[], _ = quantize(%a.whole, %a.largest, _) {dtype="e4m3"} @block.0
  %h: bf16[16,32] = scaled_linear(%x.codes, %a.codes, %x.scale, %a.scale) {dtype="bf16", fast=true} @block.0
  %h.largest: f32[] = largest_magnitude(%h) @block.1
  _, %h.codes: e4m3[16,32], %h.scale: f32[], _ = quantize(%h, %h.largest, _) {dtype="e4m3"} @block.1
  %b.gathered: bf16[32,32] = all_gather_start(%block.1.w) {axis="data", d0=32, d1=32, rank=2} @block.1.w
  %b.whole: bf16[32,32] view %b.gathered+0 = all_gather_done(%b.gathered, %block.1.w) @block.1.w
  %b.largest: f32[] = largest_magnitude(%b.whole) @block.1
  _, %b.codes: e4m3[32,32], %b.scale: f32[], _ = quantize(%b.whole, %b.largest, _) {dtype="e4m3"} @block.1
  %y: bf16[16,32] = scaled_linear(%h.codes, %b.codes, %h.scale, %b.scale) {dtype="bf16", fast=true} @block.1
backward
  %y.largest: f32[] = largest_magnitude(%y) @block.1
  _, %y.codes: e4m3[16,32], %y.scale: f32[], _ = quantize(%y, %y.largest, _) {dtype="e4m3"} @block.1
  %b.codes_t: e4m3[32,32], _, %b.scale.2: f32[], _ = quantize(%b.whole, %b.largest, _) {dtype="e4m3"} @block.1
  %dh: bf16[16,32] = scaled_linear(%y.codes, %b.codes_t, %y.scale, %b.scale.2) {dtype="bf16"} @block.1
  %dh.largest: f32[] = largest_magnitude(%dh) @block.0
  _, %dh.codes: e4m3[16,32], %dh.scale: f32[], _ = quantize(%dh, %dh.largest, _) {dtype="e4m3"} @block.0
  %a.codes_t: e4m3[32,32], _, %a.scale.2: f32[], _ = quantize(%a.whole, %a.largest, _) {dtype="e4m3"} @block.0
  %dx = scaled_linear(%dh.codes, %a.codes_t, %dh.scale, %a.scale.2) {dtype="bf16"} @block.0
)";

// All that has to do with codes of weights, in order: "codes a", "gather a", "wait a", "transpose
// a".
std::string Steps(const Program& program) {
  std::string steps;
  for (const graph::Node& node : program.nodes()) {
    const std::string& op = node.op->name;
    std::string what;
    if (graph::MakesParameter(program, node)) what = "codes";
    if (op == "all_gather_start") what = "gather";
    if (op == "all_gather_done") what = "wait";
    if (op == "transpose_codes") what = "transpose";
    if (op == "scaled_linear") what = "multiply";
    if (op == "all_reduce_start") what = "maximum";
    if (what.empty()) continue;
    if (!steps.empty()) steps += ", ";
    steps += what + (what == "maximum" ? "" : node.scope.substr(5, 2));
  }
  return steps;
}

Program Gathered(bool first, bool reshard) {
  Program program = Parse(kBlocks);
  GatherCodes({.objective = "", .first = first}).Run(program);
  graph::Simplify().Run(program);
  checkpointing::TagActivations({.reshard = reshard}).Run(program);
  checkpointing::Recompute().Run(program);
  PrefetchParameters().Run(program);
  graph::Verify(program);
  return program;
}

// To checkpointing they are gathered parameters; each is half as large.
TEST(GatherCodes, AreSavedAsParameters) {
  Program program = Parse(kBlocks);
  GatherCodes().Run(program);
  graph::Simplify().Run(program);
  int parameters = 0;
  for (const checkpointing::SavedTensor& saved : checkpointing::FindSaved(program)) {
    if (!saved.parameter) continue;
    ++parameters;
    EXPECT_EQ(saved.bytes, 32 * 32) << program.tensor(saved.tensor).name;
    EXPECT_TRUE(saved.recomputable);
  }
  EXPECT_EQ(parameters, 2);
}

// Codes are made where their gather starts, after the maximum over ranks, which is found once.
TEST(GatherCodes, StartABlockAhead) {
  EXPECT_EQ(Steps(Gathered(/*first=*/true, /*reshard=*/false)),
            "maximum, codes.0, gather.0, codes.1, gather.1, wait.0, multiply.0, wait.1, "
            "multiply.1, transpose.1, multiply.1, transpose.0, multiply.0");
}

TEST(GatherCodes, AreGatheredAgainWithoutAnotherMaximum) {
  EXPECT_EQ(Steps(Gathered(/*first=*/true, /*reshard=*/true)),
            "maximum, codes.0, gather.0, codes.1, gather.1, wait.0, multiply.0, wait.1, "
            "multiply.1, codes.1, gather.1, codes.0, gather.0, wait.1, transpose.1, multiply.1, "
            "wait.0, transpose.0, multiply.0");
}

// Micro-steps that go block by block share codes, their gathers, their scales and the maximum. The
// codes that are made ahead tear no block apart.
TEST(GatherCodes, AreJoinedAcrossMicroSteps) {
  Program program = Gathered(/*first=*/true, /*reshard=*/true);
  const Program next = Gathered(/*first=*/false, /*reshard=*/true);
  const auto own = [](const graph::Tensor& tensor) { return tensor.name == "x"; };
  graph::AppendMicroSteps({&next}, own).Run(program);
  EXPECT_EQ(graph::BlocksFirst().Run(program).summary, "2 micro-steps go block by block");
  EXPECT_EQ(JoinGathers().Run(program).summary, "5 gathers left out");
  graph::Verify(program);
  EXPECT_EQ(Steps(program),
            "maximum, codes.0, gather.0, codes.1, gather.1, wait.0, multiply.0, multiply.0, "
            "wait.1, multiply.1, multiply.1, codes.0, gather.0, transpose.1, multiply.1, "
            "transpose.1, multiply.1, wait.0, transpose.0, multiply.0, transpose.0, multiply.0");
}

}  // namespace
}  // namespace plimsoll::parallel
