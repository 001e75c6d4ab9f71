// What a plan says of 8-bit linear layers.
#include "trainer/plan/code_products.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "graph/text.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

using Reasons = std::map<std::string, int64_t>;

// A step of two equal micro-steps.
CompiledStep StepOf(const std::string& program) {
  CompiledStep compiled;
  compiled.options.accumulate = 2;
  compiled.options.amp.fp8 = {.enabled = true, .skip = {"*.proj.weight"}};
  compiled.programs.push_back(std::make_unique<graph::Program>(graph::ParseProgram(program)));
  compiled.step.entries = {{.program = 0, .times = 2}};
  return compiled;
}

constexpr const char* kProgram = R"(program train
  tensor %x: bf16[32,16] input persistent
  tensor %codes: e4m3[32,16] input persistent
  tensor %scale: f32[] input persistent
  tensor %w.codes: e4m3[48,16] input persistent
  tensor %block.0.proj.weight: f32[16,48] parameter persistent
  tensor %block.0.odd.weight: bf16[10,16] parameter persistent
  tensor %block.0.wide.weight: f32[16,16] parameter persistent
  tensor %block.0.even.weight: bf16[16,16] parameter persistent
  tensor %embed.weight: bf16[64,16] parameter persistent
  tensor %t: i32[32] input persistent
  tensor %one: f32[] input persistent
  tensor %block.0.proj.weight.grad: f32[16,48] gradient persistent of %block.0.proj.weight as gradient
  tensor %bias.grad: f32[16] gradient persistent of %bias as gradient
  tensor %embed.weight.grad: f32[64,16] gradient persistent of %embed.weight as gradient
  tensor %loss: f32[] metric persistent
forward
  %h: bf16[32,48] = scaled_linear(%codes, %w.codes, %scale, %scale, _, _) {dtype="bf16"} @block.0
  %proj: bf16[16,48] = cast(%block.0.proj.weight) {dtype="bf16"} @block.0
  %y: bf16[32,16] = linear(%h, %proj, _) @block.0
  %z: bf16[32,10] = linear(%y, %block.0.odd.weight, _) @block.0
  %f: f32[32,16] = cast(%y) {dtype="f32"} @block.0
  %v: f32[32,16] = linear(%f, %block.0.wide.weight, _) @block.0
  %u: bf16[32,16] = linear(%y, %block.0.even.weight, _) @block.0
  %p: bf16[32,16] = linear(%u, %block.0.even.weight, _) @pooler
  %loss, %dp: bf16[32,16], %embed.weight.grad, _ = linear_cross_entropy_train(%p, %embed.weight, %t, %one, %one, %embed.weight.grad) @head
backward
  %block.0.proj.weight.grad, %bias.grad = linear_dw(%h, %dp, _, _) {bias=true} @block.0
  %dh: bf16[32,48] = linear_dx(%dp, %proj, _) @block.0
  _, %bias.grad = linear_dw(%y, %dp, _, %bias.grad) {bias=true} @block.0
recompute
  %h2: bf16[32,48] = scaled_linear(%codes, %w.codes, %scale, %scale, _, _) {dtype="bf16"} @block.0
)";

TEST(CodeProducts, AreCountedWithWhyOthersAreNone) {
  const CodeProducts products = CountCodeProducts(StepOf(kProgram));
  EXPECT_EQ(products.all, 9);  // without the gradient of a bias alone and what is recomputed
  EXPECT_EQ(products.of_codes, 1);
  EXPECT_EQ(products.others, (Reasons{{"10 outputs, no multiple of 16", 1},
                                      {"amp.fp8.skip", 3},
                                      {"in bf16", 1},
                                      {"in f32", 1},
                                      {"outside the blocks", 1},
                                      {"the head stays in 16 bits", 1}}));
  EXPECT_EQ(Text(products),
            "8-bit products: 1 of 9 a micro-step (10 outputs, no multiple of 16: 1; amp.fp8.skip: "
            "3; in bf16: 1; in f32: 1; outside the blocks: 1; the head stays in 16 bits: 1)");
  const nlohmann::ordered_json json = CodeProductsJson(products);
  EXPECT_EQ(json.at("all"), 9);
  EXPECT_EQ(json.at("eight_bit"), 1);
  EXPECT_EQ(json.at("others").at("amp.fp8.skip"), 3);
}

TEST(CodeProducts, NameTheEndsThatStayIn16Bits) {
  CompiledStep compiled = StepOf(kProgram);
  compiled.options.amp.fp8.skip_ends = 1;  // of one block
  EXPECT_EQ(CountCodeProducts(compiled).others, (Reasons{{"amp.fp8.skip_ends", 6},
                                                         {"outside the blocks", 1},
                                                         {"the head stays in 16 bits", 1}}));
}

TEST(CodeProducts, WithoutOthersGiveNoReasons) {
  EXPECT_EQ(Text({.all = 87, .of_codes = 87, .others = {}}),
            "8-bit products: 87 of 87 a micro-step");
}

// MFU's denominator: the time of the products at best is the sum of each type's.
TEST(PeakFlops, CountEachTypeAtItsPeak) {
  CompiledStep compiled;
  compiled.model_flops = 3e15;
  EXPECT_EQ(PeakFlops(compiled, 989e12, 1979e12), 989e12);
  compiled.model_flops_of_codes = 2e15;
  EXPECT_DOUBLE_EQ(PeakFlops(compiled, 1e15, 2e15), 1.5e15);
  EXPECT_EQ(PeakFlops(compiled, 989e12, 0), 989e12);
  EXPECT_EQ(PeakFlops(compiled, 0, 0), 0);
}

}  // namespace
}  // namespace plimsoll::trainer
