// Golden tests of the pass `lora`: program text in and out.
#include "adapters/lora_pass.h"

#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::adapters {
namespace {

using graph::Parse;
using graph::Program;

// A layer with q, k and v in one weight, where q and v have adapters, and a layer that is one
// module.
Lora TwoLayers() {
  Lora lora;
  lora.rank = 2;
  lora.alpha = 3;
  lora.layers = {{"attn.qkv", {12, 8}, {{"q_proj", 0, 6}, {"v_proj", 9, 3}}, {}},
                 {"attn.proj", {8, 6}, {{"o_proj", 0, 8}}, {}}};
  return lora;
}

constexpr char kForward[] = R"(program train
  tensor %x: f32[5,8] input persistent
  tensor %attn.qkv.weight: f32[12,8] parameter persistent
  tensor %attn.qkv.bias: f32[12] parameter persistent
  tensor %attn.proj.weight: f32[8,6] parameter persistent
  tensor %head.weight: f32[3,8] parameter persistent
  tensor %rng: i32[2] input persistent
forward
  %attn.qkv: f32[5,12] = linear(%x, %attn.qkv.weight, %attn.qkv.bias) @attn
  %attn.half: f32[5,6] = swiglu(%attn.qkv) @attn
  %attn.proj: f32[5,8] = linear(%attn.half, %attn.proj.weight, _) @attn
  %y: f32[5,3] = linear(%attn.proj, %head.weight, _)
  %loss: f32[] = sum(%y)
)";

TEST(LoraPass, AddsALowRankProductBesideEachLayer) {
  Program program = Parse(kForward);
  const graph::PassResult result = LoraPass(TwoLayers(), true).Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "rank 2 next to 2 linear layers, 78 parameters");
  graph::ExpectProgram(program, R"(program train
  tensor %x: f32[5,8] input persistent
  tensor %attn.qkv.weight: f32[12,8] parameter persistent
  tensor %attn.qkv.bias: f32[12] parameter persistent
  tensor %attn.proj.weight: f32[8,6] parameter persistent
  tensor %head.weight: f32[3,8] parameter persistent
  tensor %rng: i32[2] input persistent
  tensor %attn.qkv.lora_a: f32[4,8] parameter persistent
  tensor %attn.qkv.lora_b: f32[9,2] parameter persistent
  tensor %attn.proj.lora_a: f32[2,6] parameter persistent
  tensor %attn.proj.lora_b: f32[8,2] parameter persistent
forward
  %attn.qkv.base: f32[5,12] = linear(%x, %attn.qkv.weight, %attn.qkv.bias) @attn
  %attn.qkv.low_rank: f32[5,4] = linear(%x, %attn.qkv.lora_a, _) @attn !lora
  %attn.qkv: f32[5,12] = add_low_rank(%attn.qkv.base, %attn.qkv.low_rank, %attn.qkv.lora_b) {columns="0+6 9+3", scale=1.5} @attn !lora
  %attn.half: f32[5,6] = swiglu(%attn.qkv) @attn
  %attn.proj.base: f32[5,8] = linear(%attn.half, %attn.proj.weight, _) @attn
  %attn.proj.low_rank: f32[5,2] = linear(%attn.half, %attn.proj.lora_a, _) @attn !lora
  %attn.proj: f32[5,8] = add_low_rank(%attn.proj.base, %attn.proj.low_rank, %attn.proj.lora_b) {columns="0+8", scale=1.5} @attn !lora
  %y: f32[5,3] = linear(%attn.proj, %head.weight, _)
  %loss: f32[] = sum(%y)
)");
}

// Dropout nodes draw with distinct keys; without training there are none.
TEST(LoraPass, DropsWhatAdaptersReadInTraining) {
  Lora lora = TwoLayers();
  lora.dropout = 0.25;
  lora.layers.pop_back();
  Program program = Parse(kForward);
  LoraPass(lora, true).Run(program);
  const std::string text = graph::ToText(program);
  EXPECT_NE(text.find("  %attn.qkv.dropout: f32[5,8] = dropout(%x, %rng) {key=5, p=0.25}"),
            text.npos)
      << text;
  EXPECT_NE(text.find("  %attn.qkv.low_rank: f32[5,4] = linear(%attn.qkv.dropout, "), text.npos)
      << text;

  Program evaluation = Parse(kForward), plain = Parse(kForward);
  LoraPass(lora, false).Run(evaluation);
  lora.dropout = 0;
  LoraPass(lora, true).Run(plain);
  EXPECT_EQ(graph::ToText(evaluation), graph::ToText(plain));
}

// With frozen weights only A and B have gradients, and the input's own gradient is added to A's
// part.
TEST(LoraPass, LeavesOnlyAdaptersToDifferentiate) {
  Program program = Parse(kForward);
  LoraPass(TwoLayers(), true).Run(program);
  graph::Autodiff({.frozen = [](const graph::Tensor& parameter) {
    return parameter.name.ends_with(".weight") || parameter.name.ends_with(".bias");
  }}).Run(program);
  std::string gradients, backward;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.role == graph::Role::kGradient) gradients += tensor.name + " ";
  }
  for (const graph::Node& node : program.nodes()) {
    if (node.phase == graph::Phase::kBackward) backward += node.op->name + " ";
  }
  EXPECT_EQ(gradients,
            "attn.proj.lora_b.grad attn.proj.lora_a.grad attn.qkv.lora_b.grad "
            "attn.qkv.lora_a.grad ");
  EXPECT_EQ(backward,
            "fill fill scale_by linear_dx add_low_rank_db add_low_rank_du linear_dw linear_dx "
            "linear_dx swiglu_backward add_low_rank_db add_low_rank_du linear_dw ");
}

}  // namespace
}  // namespace plimsoll::adapters
