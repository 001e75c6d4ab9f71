// Golden tests of the mixed-precision pass on forward programs: text in, text out.
#include "amp/mixed_precision.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::amp {
namespace {

using graph::DType;
using graph::ExpectProgram;
using graph::Parse;
using graph::Program;

AmpOptions Bf16() {
  AmpOptions options;
  options.dtype = DType::kBFloat16;
  return options;
}

Program Mixed(std::string_view text, const AmpOptions& options = Bf16()) {
  Program program = Parse(text);
  EXPECT_TRUE(MixedPrecision(options).Run(program).changed);
  return program;
}

// With the default table GPT-2 needs no casts: weights are stored in the low type, norms and
// additions compute in float32 internally, and the loss is float32 by itself. (One block without
// its attention; the output layer shares the embedding's table.)
TEST(MixedPrecision, Gpt2HasNoCasts) {
  ExpectProgram(Mixed(R"(program gpt2
  tensor %tokens: i32[2,8] input persistent
  tensor %rng: i32[2] input persistent
  tensor %targets: i32[2,8] input persistent
  tensor %token_weight: f32[] input persistent
  tensor %wte: f32[16,4] parameter persistent
  tensor %wpe: f32[8,4] parameter persistent
  tensor %g: f32[4] parameter persistent
  tensor %b: f32[4] parameter persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %c: f32[4] parameter persistent
forward
  %embed: f32[2,8,4] = embedding(%tokens, %wte, %wpe)
  %norm: f32[2,8,4], %norm.mean: f32[16], %norm.rstd: f32[16] = layer_norm(%embed, %g, %b) {eps=1e-05}
  %fc: f32[2,8,4] = linear(%norm, %w, %c)
  %gelu: f32[2,8,4] = gelu(%fc) {approximate="tanh"}
  %dropout: f32[2,8,4] = dropout(%gelu, %rng) {key=4, p=0.1}
  %residual: f32[2,8,4] = add(%embed, %dropout)
  %loss: f32[], %loss.lse: f32[16] = linear_cross_entropy(%residual, %wte, %targets, %token_weight)
)"),
                R"(program gpt2
  tensor %tokens: i32[2,8] input persistent
  tensor %rng: i32[2] input persistent
  tensor %targets: i32[2,8] input persistent
  tensor %token_weight: f32[] input persistent
  tensor %wte: bf16[16,4] parameter persistent
  tensor %wpe: bf16[8,4] parameter persistent
  tensor %g: bf16[4] parameter persistent
  tensor %b: bf16[4] parameter persistent
  tensor %w: bf16[4,4] parameter persistent
  tensor %c: bf16[4] parameter persistent
forward
  %embed: bf16[2,8,4] = embedding(%tokens, %wte, %wpe)
  %norm: bf16[2,8,4], %norm.mean: f32[16], %norm.rstd: f32[16] = layer_norm(%embed, %g, %b) {eps=1e-05}
  %fc: bf16[2,8,4] = linear(%norm, %w, %c)
  %gelu: bf16[2,8,4] = gelu(%fc) {approximate="tanh"}
  %dropout: bf16[2,8,4] = dropout(%gelu, %rng) {key=4, p=0.1}
  %residual: bf16[2,8,4] = add(%embed, %dropout)
  %loss: f32[], %loss.lse: f32[16] = linear_cross_entropy(%residual, %wte, %targets, %token_weight)
)");
}

// Next-token logits of a Llama-like model in fp16. The host reads them, so they stay float32: the
// product is rounded to the low type like every other, then widened again.
TEST(MixedPrecision, LlamaLogitsStayFloat32) {
  AmpOptions options;
  options.dtype = DType::kFloat16;
  ExpectProgram(Mixed(R"(program llama
  tensor %prompt: i32[2,8] input persistent
  tensor %last: i32[2] input persistent
  tensor %table: f32[16,8] parameter persistent
  tensor %g: f32[8] parameter persistent
  tensor %qkv.w: f32[16,8] parameter persistent
  tensor %up.w: f32[16,8] parameter persistent
  tensor %head: f32[16,8] parameter persistent
forward
  %embed: f32[2,8,8] = embedding(%prompt, %table, _)
  %norm: f32[2,8,8], _ = rms_norm(%embed, %g) {eps=1e-05}
  %qkv: f32[2,8,16] = linear(%norm, %qkv.w, _)
  %rotary: f32[2,8,16] = rotary(%qkv) {heads=2, inverse=false, kv_heads=1, theta=1e4}
  %attn: f32[2,8,8], _ = attention(%rotary, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=1}
  %residual: f32[2,8,8] = add(%embed, %attn)
  %gate_up: f32[2,8,16] = linear(%residual, %up.w, _)
  %swiglu: f32[2,8,8] = swiglu(%gate_up)
  %last_rows: f32[2,8] = select_rows(%swiglu, %last)
  %logits: f32[2,16] metric persistent = linear(%last_rows, %head, _) @head
)",
                      options),
                R"(program llama
  tensor %prompt: i32[2,8] input persistent
  tensor %last: i32[2] input persistent
  tensor %table: f16[16,8] parameter persistent
  tensor %g: f16[8] parameter persistent
  tensor %qkv.w: f16[16,8] parameter persistent
  tensor %up.w: f16[16,8] parameter persistent
  tensor %head: f16[16,8] parameter persistent
  tensor %logits: f32[2,16] metric persistent
forward
  %embed: f16[2,8,8] = embedding(%prompt, %table, _)
  %norm: f16[2,8,8], _ = rms_norm(%embed, %g) {eps=1e-05}
  %qkv: f16[2,8,16] = linear(%norm, %qkv.w, _)
  %rotary: f16[2,8,16] = rotary(%qkv) {heads=2, inverse=false, kv_heads=1, theta=1e4}
  %attn: f16[2,8,8], _ = attention(%rotary, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=1}
  %residual: f16[2,8,8] = add(%embed, %attn)
  %gate_up: f16[2,8,16] = linear(%residual, %up.w, _)
  %swiglu: f16[2,8,8] = swiglu(%gate_up)
  %last_rows: f16[2,8] = select_rows(%swiglu, %last)
  %logits.f16: f16[2,16] = linear(%last_rows, %head, _) @head
  %logits = cast(%logits.f16) {dtype="f32"} @head !amp
)");
}

// amp.fp32_ops: [rms_norm]. Its weight stays float32. Its input and result are cast once each,
// although two products read the result.
TEST(MixedPrecision, AnOpKindMayStayInFloat32) {
  AmpOptions options = Bf16();
  options.fp32_ops = {"rms_norm"};
  ExpectProgram(Mixed(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %v: f32[4,4] parameter persistent
  tensor %g: f32[4] parameter persistent
  tensor %w: f32[6,4] parameter persistent
forward
  %y: f32[8,4] = linear(%x, %v, _) @in
  %norm: f32[8,4], _ = rms_norm(%y, %g) {eps=1e-05} @norm
  %a: f32[8,6] = linear(%norm, %w, _) @a
  %b: f32[8,6] = linear(%norm, %w, _) @b
  %c: f32[8,6] = add(%a, %b)
)",
                      options),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %v: bf16[4,4] parameter persistent
  tensor %g: f32[4] parameter persistent
  tensor %w: bf16[6,4] parameter persistent
forward
  %x.bf16: bf16[8,4] = cast(%x) {dtype="bf16"} @in !amp
  %y: bf16[8,4] = linear(%x.bf16, %v, _) @in
  %y.f32: f32[8,4] = cast(%y) {dtype="f32"} @norm !amp
  %norm: f32[8,4], _ = rms_norm(%y.f32, %g) {eps=1e-05} @norm
  %norm.bf16: bf16[8,4] = cast(%norm) {dtype="bf16"} @a !amp
  %a: bf16[8,6] = linear(%norm.bf16, %w, _) @a
  %b: bf16[8,6] = linear(%norm.bf16, %w, _) @b
  %c: bf16[8,6] = add(%a, %b)
)");
}

// amp.low_ops: [squared_norm]. Its weight is stored in the low type, its result stays a float32
// scalar.
TEST(MixedPrecision, AnOpKindMayWorkInTheLowType) {
  AmpOptions options = Bf16();
  options.low_ops = {"squared_norm"};
  const Program program = Mixed(R"(program p
  tensor %w: f32[4] parameter persistent
forward
  %loss: f32[] = squared_norm(%w)
)",
                                options);
  EXPECT_EQ(program.tensor(program.Require("w")).type.dtype, DType::kBFloat16);
  EXPECT_EQ(program.tensor(program.Require("loss")).type.dtype, DType::kFloat32);
}

// A table stays float32 if the loss reads it in float32 (amp.fp32_ops) and the embedding in the low
// type; the embedding then reads a copy.
TEST(MixedPrecision, ATiedTableReadInBothTypesStaysFloat32) {
  AmpOptions options = Bf16();
  options.fp32_ops = {"linear_cross_entropy"};
  ExpectProgram(Mixed(R"(program tied
  tensor %tokens: i32[2,8] input persistent
  tensor %targets: i32[2,8] input persistent
  tensor %token_weight: f32[] input persistent
  tensor %table: f32[16,4] parameter persistent
forward
  %embed: f32[2,8,4] = embedding(%tokens, %table, _)
  %loss: f32[], %loss.lse: f32[16] = linear_cross_entropy(%embed, %table, %targets, %token_weight)
)",
                      options),
                R"(program tied
  tensor %tokens: i32[2,8] input persistent
  tensor %targets: i32[2,8] input persistent
  tensor %token_weight: f32[] input persistent
  tensor %table: f32[16,4] parameter persistent
forward
  %table.bf16: bf16[16,4] = cast(%table) {dtype="bf16"} !amp
  %embed: bf16[2,8,4] = embedding(%tokens, %table.bf16, _)
  %embed.f32: f32[2,8,4] = cast(%embed) {dtype="f32"} !amp
  %loss: f32[], %loss.lse: f32[16] = linear_cross_entropy(%embed.f32, %table, %targets, %token_weight)
)");
}

// The loss program has decided that the table is float32; the logits program, in which only low ops
// read it, follows.
TEST(MixedPrecision, AllProgramsAgreeOnParameters) {
  AmpOptions options = Bf16();
  options.fp32_ops = {"linear_cross_entropy"};
  const Program loss = Parse(R"(program train
  tensor %tokens: i32[2,8] input persistent
  tensor %targets: i32[2,8] input persistent
  tensor %token_weight: f32[] input persistent
  tensor %table: f32[16,4] parameter persistent
  tensor %w: f32[4,4] parameter persistent
forward
  %embed: f32[2,8,4] = embedding(%tokens, %table, _)
  %fc: f32[2,8,4] = linear(%embed, %w, _)
  %loss: f32[], _ = linear_cross_entropy(%fc, %table, %targets, %token_weight)
)");
  options.fp32_parameters = Float32Parameters(loss, options);
  EXPECT_EQ(*options.fp32_parameters, std::set<std::string>({"table"}));
  ExpectProgram(Mixed(R"(program logits
  tensor %tokens: i32[2,8] input persistent
  tensor %table: f32[16,4] parameter persistent
  tensor %w: f32[4,4] parameter persistent
forward
  %embed: f32[2,8,4] = embedding(%tokens, %table, _)
  %fc: f32[2,8,4] = linear(%embed, %w, _)
  %logits: f32[2,8,16] = linear(%fc, %table, _)
)",
                      options),
                R"(program logits
  tensor %tokens: i32[2,8] input persistent
  tensor %table: f32[16,4] parameter persistent
  tensor %w: bf16[4,4] parameter persistent
forward
  %table.bf16: bf16[16,4] = cast(%table) {dtype="bf16"} !amp
  %embed: bf16[2,8,4] = embedding(%tokens, %table.bf16, _)
  %fc: bf16[2,8,4] = linear(%embed, %w, _)
  %logits.bf16: bf16[2,8,16] = linear(%fc, %table.bf16, _)
  %logits: f32[2,8,16] = cast(%logits.bf16) {dtype="f32"} !amp
)");

  // The converse: a low-precision parameter is widened for a float32 op that reads it.
  options.fp32_ops = {"rms_norm"};
  options.fp32_parameters = std::set<std::string>();
  ExpectProgram(Mixed(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %g: f32[4] parameter persistent
forward
  %y: f32[8,4], _ = rms_norm(%x, %g) {eps=1e-05}
)",
                      options),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %g: bf16[4] parameter persistent
forward
  %g.f32: f32[4] = cast(%g) {dtype="f32"} !amp
  %y: f32[8,4], _ = rms_norm(%x, %g.f32) {eps=1e-05}
)");
}

// A view has the type of its base, and the view's readers decide about a parameter behind it. Here
// the result is a view: it becomes a tensor of its own.
TEST(MixedPrecision, ViewsFollowTheirBase) {
  ExpectProgram(Mixed(R"(program views
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[24] parameter persistent
forward
  %m: f32[6,4] view %w+0 = view(%w) {d0=6, d1=4, rank=2}
  %y: f32[8,6] = linear(%x, %m, _)
  %logits: f32[48] metric persistent view %y+0 = view(%y) {d0=48, rank=1}
)"),
                R"(program views
  tensor %x: f32[8,4] input persistent
  tensor %w: bf16[24] parameter persistent
  tensor %logits: f32[48] metric persistent
forward
  %m: bf16[6,4] view %w+0 = view(%w) {d0=6, d1=4, rank=2}
  %x.bf16: bf16[8,4] = cast(%x) {dtype="bf16"} !amp
  %y: bf16[8,6] = linear(%x.bf16, %m, _)
  %logits.bf16: bf16[48] view %y+0 = view(%y) {d0=48, rank=1}
  %logits = cast(%logits.bf16) {dtype="f32"} !amp
)");
}

// Widening followed by narrowing is left out: the second product reads the first one's result. A
// model's own narrowing is meant to round, so it is kept.
TEST(MixedPrecision, CastPairsCancel) {
  ExpectProgram(Mixed(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
forward
  %r: bf16[8,4] = cast(%x) {dtype="bf16"}
  %s: f32[] = sum(%r)
  %y: f32[8,4] = linear(%x, %w, _)
  %wide: f32[8,4] = cast(%y) {dtype="f32"}
  %z: f32[8,4] = linear(%wide, %w, _)
)"),
                R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: bf16[4,4] parameter persistent
forward
  %r: bf16[8,4] = cast(%x) {dtype="bf16"}
  %r.f32: f32[8,4] = cast(%r) {dtype="f32"} !amp
  %s: f32[] = sum(%r.f32)
  %x.bf16: bf16[8,4] = cast(%x) {dtype="bf16"} !amp
  %y: bf16[8,4] = linear(%x.bf16, %w, _)
  %wide: f32[8,4] = cast(%y) {dtype="f32"}
  %z: bf16[8,4] = linear(%y, %w, _)
)");
}

// Carried state keeps its type, and a cast of its old value isn't reused for its new value.
TEST(MixedPrecision, CarriedStateStaysFloat32) {
  ExpectProgram(Mixed(R"(program p
  tensor %state: f32[4] state persistent
  tensor %w: f32[4] parameter persistent
forward
  %a: f32[4] = add(%state, %w)
  %state = scale(%state) {factor=0.5}
  %b: f32[4] = add(%state, %w)
)"),
                R"(program p
  tensor %state: f32[4] state persistent
  tensor %w: bf16[4] parameter persistent
forward
  %state.bf16: bf16[4] = cast(%state) {dtype="bf16"} !amp
  %a: bf16[4] = add(%state.bf16, %w)
  %state.bf16.2: bf16[4] = scale(%state.bf16) {factor=0.5}
  %state = cast(%state.bf16.2) {dtype="f32"} !amp
  %b: bf16[4] = add(%state.bf16.2, %w)
)");
}

constexpr std::string_view kLinear = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
forward
  %y: f32[8,4] = linear(%x, %w, _)
)";

TEST(MixedPrecision, Float32ChangesNothing) {
  Program program = Parse(kLinear);
  EXPECT_FALSE(MixedPrecision({}).Run(program).changed);
  ExpectProgram(program, kLinear);
}

TEST(MixedPrecision, ASecondTimeChangesNothing) {
  Program program = Mixed(kLinear);
  const std::string once = ToText(program);
  EXPECT_FALSE(MixedPrecision(Bf16()).Run(program).changed);
  EXPECT_EQ(ToText(program), once);
}

TEST(MixedPrecision, SaysWhatItDid) {
  Program program = Parse(kLinear);
  AmpOptions options = Bf16();
  EXPECT_EQ(MixedPrecision(options).Run(program).summary,
            "1 node in bf16, 0 in f32, 1 cast added; 1 parameter in bf16, 0 in f32");
}

TEST(MixedPrecision, RefusesABackwardPass) {
  Program program = Parse(R"(program p
  tensor %dy: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent
backward
  %dx: f32[8,4] = linear_dx(%dy, %w, _)
)");
  ExpectInternalError([&] { MixedPrecision(Bf16()).Run(program); },
                      {"amp", "linear_dx", "autodiff"});
}

AmpOptions Tf32() {
  AmpOptions options;
  options.tf32 = true;
  return options;
}

const std::string kProducts = R"(program p
  tensor %x: f32[2,8,12] input persistent
  tensor %w: f32[4,4] parameter persistent
  tensor %v: f32[8,4] parameter persistent
  tensor %t: i32[2,8] input persistent
  tensor %s: f32[] input persistent
)";

// Tensors stay float32; the products' attributes say how their operands are rounded.
TEST(MixedPrecision, Tf32MarksProducts) {
  ExpectProgram(Mixed(kProducts + R"(
forward
  %a: f32[2,8,4], %lse: f32[2,1,8] = attention(%x, _) {causal=true, dropout=0.0, heads=1, key=0, kv_heads=1}
  %y: f32[2,8,4] = linear(%a, %w, _)
  %c: f32[2,8,8] = matmul(%a, %y) {trans_a=false, trans_b=true}
  %loss: f32[], _ = linear_cross_entropy(%y, %v, %t, %s)
)",
                      Tf32()),
                kProducts + R"(
forward
  %a: f32[2,8,4], %lse: f32[2,1,8] = attention(%x, _) {causal=true, dropout=0.0, heads=1, key=0, kv_heads=1, tf32=true}
  %y: f32[2,8,4] = linear(%a, %w, _) {tf32=true}
  %c: f32[2,8,8] = matmul(%a, %y) {tf32=true, trans_a=false, trans_b=true}
  %loss: f32[], _ = linear_cross_entropy(%y, %v, %t, %s) {tf32=true}
)");
}

TEST(MixedPrecision, Tf32LeavesOpsThatAreNamed) {
  AmpOptions options = Tf32();
  const std::string before = kProducts + R"(
forward
  %y: f32[8,4] = linear(%v, %w, _)
  %c: f32[8,8] = matmul(%y, %v) {trans_a=false, trans_b=true}
)";
  options.fp32_ops = {"matmul"};
  ExpectProgram(Mixed(before, options), kProducts + R"(
forward
  %y: f32[8,4] = linear(%v, %w, _) {tf32=true}
  %c: f32[8,8] = matmul(%y, %v) {trans_a=false, trans_b=true}
)");
}

}  // namespace
}  // namespace plimsoll::amp
