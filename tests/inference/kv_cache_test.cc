// Golden tests of the pass: text in, text out.
#include "inference/kv_cache.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/error.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::inference {
namespace {

using graph::ExpectProgram;
using graph::Parse;
using graph::Program;

Program Cached(std::string_view text, int64_t capacity) {
  Program program = Parse(text);
  EXPECT_TRUE(KvCache(capacity).Run(program).changed);
  return program;
}

TEST(KvCache, PositionTableAndAttention) {
  ExpectProgram(Cached(R"(program decode
  tensor %next: i32[2,1] input persistent
  tensor %token: f32[50,8] parameter persistent
  tensor %place: f32[64,8] parameter persistent
  tensor %w: f32[24,8] parameter persistent
forward
  %embed: f32[2,1,8] = embedding(%next, %token, %place) @embed
  %qkv: f32[2,1,24] = linear(%embed, %w, _) @block.0.attn
  %out: f32[2,1,8], %lse: f32[2,2,1] = attention(%qkv, _) {heads=2, kv_heads=2, causal=true, dropout=0.0, key=0} @block.0.attn
)",
                       64),
                R"(program decode
  tensor %next: i32[2,1] input persistent
  tensor %token: f32[50,8] parameter persistent
  tensor %place: f32[64,8] parameter persistent
  tensor %w: f32[24,8] parameter persistent
  tensor %position: i32[1] input persistent
  tensor %block.0.attn.keys: f32[2,2,64,4] state persistent
  tensor %block.0.attn.values: f32[2,2,64,4] state persistent
forward
  %embed: f32[2,1,8] = embedding(%next, %token, %place, %position) @embed
  %qkv: f32[2,1,24] = linear(%embed, %w, _) @block.0.attn
  %out: f32[2,1,8], %block.0.attn.keys, %block.0.attn.values = attention_cached(%qkv, %block.0.attn.keys, %block.0.attn.values, %position) {heads=2, kv_heads=2} @block.0.attn !kv_cache
)");
}

// With 16-bit activations the cache is 16-bit too; it holds only the key-value heads.
TEST(KvCache, RotaryAndSharedHeads) {
  ExpectProgram(Cached(R"(program prefill
  tensor %qkv: bf16[1,16,24] input persistent
forward
  %turned: bf16[1,16,24] = rotary(%qkv) {heads=4, kv_heads=1, theta=10000.0, inverse=false} @block.0.attn
  %out: bf16[1,16,16], _ = attention(%turned, _) {heads=4, kv_heads=1, causal=true, dropout=0.0, key=0} @block.0.attn
)",
                       48),
                R"(program prefill
  tensor %qkv: bf16[1,16,24] input persistent
  tensor %position: i32[1] input persistent
  tensor %block.0.attn.keys: bf16[1,1,48,4] state persistent
  tensor %block.0.attn.values: bf16[1,1,48,4] state persistent
forward
  %turned: bf16[1,16,24] = rotary(%qkv, %position) {heads=4, kv_heads=1, theta=10000.0, inverse=false} @block.0.attn
  %out: bf16[1,16,16], %block.0.attn.keys, %block.0.attn.values = attention_cached(%turned, %block.0.attn.keys, %block.0.attn.values, %position) {heads=4, kv_heads=1} @block.0.attn !kv_cache
)");
}

TEST(KvCache, KeepsTheWindow) {
  Program program = Cached(R"(program decode
  tensor %qkv: f32[1,1,12] input persistent
forward
  %out: f32[1,1,4], _ = attention(%qkv, _) {heads=1, kv_heads=1, causal=true, dropout=0.0, key=0, window=5} @attn
)",
                           8);
  ASSERT_EQ(program.nodes().size(), 1);
  EXPECT_EQ(program.nodes()[0].op->name, "attention_cached");
  EXPECT_EQ(program.nodes()[0].attributes.GetInt("window"), 5);
}

TEST(KvCache, KeepsScaleAndSoftCapOfScores) {
  Program program = Cached(R"(program p
  tensor %qkv: f32[2,1,24] input persistent
forward
  %out: f32[2,1,8], _ = attention(%qkv, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2, scale=0.25, softcap=50.0, window=4} @attn
)",
                           8);
  EXPECT_EQ(program.nodes()[0].attributes, (graph::Attributes{{"heads", int64_t{2}},
                                                              {"kv_heads", int64_t{2}},
                                                              {"scale", 0.25},
                                                              {"softcap", 50.0},
                                                              {"window", int64_t{4}}}));
}

TEST(KvCache, RefusesDocumentsApart) {
  Program program = Parse(R"(program p
  tensor %qkv: f32[1,4,12] input persistent
  tensor %positions: i32[1,4] input persistent
forward
  %out: f32[1,4,4], _ = attention(%qkv, _, _, %positions) {heads=1, kv_heads=1, causal=true, dropout=0.0, key=0} @attn
)");
  EXPECT_THROW(KvCache(8).Run(program), InternalError);
}

TEST(KvCache, RefusesAttentionThatSeesTheFuture) {
  Program program = Parse(R"(program p
  tensor %qkv: f32[1,4,12] input persistent
forward
  %out: f32[1,4,4], _ = attention(%qkv, _) {heads=1, kv_heads=1, causal=false, dropout=0.0, key=0} @attn
)");
  EXPECT_THROW(KvCache(8).Run(program), InternalError);
}

}  // namespace
}  // namespace plimsoll::inference
