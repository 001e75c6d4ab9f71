// The pass that makes scores and probabilities of attention tensors. What it computes is compared
// with blockwise attention in tests/trainer/stored_scores_test.cc.
#include "ops/stored_attention/stored_attention.h"

#include <gtest/gtest.h>

#include "tests/graph/expect_program.h"

namespace plimsoll::ops {
namespace {

using graph::ExpectProgram;
using graph::Parse;
using graph::Program;

TEST(StoredAttention, IsAChainOfTensors) {
  Program program = Parse(R"(program p
  tensor %x: f32[2,8,48] input persistent
forward
  %out: f32[2,8,16], %out.lse: f32[2,2,8] = attention(%x, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2} @block.0.attn
  %y: f32[2,8,16] metric = scale(%out) {factor=2.0}
)");
  EXPECT_TRUE(HasAttention(program));
  const graph::PassResult result = StoredAttention().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "1 attention with stored scores");
  EXPECT_FALSE(HasAttention(program));
  ExpectProgram(program, R"(program p
  tensor %x: f32[2,8,48] input persistent
forward
  %block.0.attn.heads: f32[2,2,8,8], %block.0.attn.heads.k: f32[2,2,8,8], %block.0.attn.heads.v: f32[2,2,8,8] = split_heads(%x) {heads=2, kv_heads=2} @block.0.attn !stored_attention
  %block.0.attn.scores: f32[2,2,8,8] = matmul(%block.0.attn.heads, %block.0.attn.heads.k) {trans_a=false, trans_b=true} @block.0.attn !stored_attention
  %block.0.attn.probabilities: f32[2,2,8,8] = masked_softmax(%block.0.attn.scores) {causal=true, scale=0.35355339059327373} @block.0.attn !stored_attention
  %block.0.attn.mixed: f32[2,2,8,8] = matmul(%block.0.attn.probabilities, %block.0.attn.heads.v) {trans_a=false, trans_b=false} @block.0.attn !stored_attention
  %out: f32[2,8,16] = merge_heads(%block.0.attn.mixed) {heads=2, kv_heads=2} @block.0.attn !stored_attention
  %y: f32[2,8,16] metric = scale(%out) {factor=2.0}
)");
}

// Four query heads with one head of keys and values: its scores are one product of 4·6 rows.
TEST(StoredAttention, GroupsHeadsMasksAndDrops) {
  Program program = Parse(R"(program p
  tensor %x: f32[3,6,24] input persistent
  tensor %rng: i32[2] input persistent
  tensor %lengths: i32[3] input persistent
forward
  %out: f32[3,6,16], _ = attention(%x, %rng, %lengths) {causal=false, dropout=0.1, heads=4, key=7, kv_heads=1}
)");
  StoredAttention().Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: f32[3,6,24] input persistent
  tensor %rng: i32[2] input persistent
  tensor %lengths: i32[3] input persistent
forward
  %heads: f32[3,1,24,4], %heads.k: f32[3,1,6,4], %heads.v: f32[3,1,6,4] = split_heads(%x) {heads=4, kv_heads=1} !stored_attention
  %scores: f32[3,1,24,6] = matmul(%heads, %heads.k) {trans_a=false, trans_b=true} !stored_attention
  %probabilities: f32[3,1,24,6] = masked_softmax(%scores, %lengths) {causal=false, scale=0.5} !stored_attention
  %probabilities.dropped: f32[3,1,24,6] = dropout(%probabilities, %rng) {key=7, p=0.1, scores=true} !stored_attention
  %mixed: f32[3,1,24,4] = matmul(%probabilities.dropped, %heads.v) {trans_a=false, trans_b=false} !stored_attention
  %out: f32[3,6,16] = merge_heads(%mixed) {heads=4, kv_heads=1} !stored_attention
)");
}

TEST(StoredAttention, ScalesAndCapsScores) {
  Program program = Parse(R"(program p
  tensor %x: f32[3,6,24] input persistent
forward
  %a: f32[3,6,8], _ = attention(%x, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2, scale=0.25}
  %b: f32[3,6,8], _ = attention(%x, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2, scale=0.25, softcap=50.0} @capped
)");
  StoredAttention().Run(program);
  ExpectProgram(program, R"(program p
  tensor %x: f32[3,6,24] input persistent
forward
  %heads: f32[3,2,6,4], %heads.k: f32[3,2,6,4], %heads.v: f32[3,2,6,4] = split_heads(%x) {heads=2, kv_heads=2} !stored_attention
  %scores: f32[3,2,6,6] = matmul(%heads, %heads.k) {trans_a=false, trans_b=true} !stored_attention
  %probabilities: f32[3,2,6,6] = masked_softmax(%scores) {causal=true, scale=0.25} !stored_attention
  %mixed: f32[3,2,6,4] = matmul(%probabilities, %heads.v) {trans_a=false, trans_b=false} !stored_attention
  %a: f32[3,6,8] = merge_heads(%mixed) {heads=2, kv_heads=2} !stored_attention
  %capped.heads: f32[3,2,6,4], %capped.heads.k: f32[3,2,6,4], %capped.heads.v: f32[3,2,6,4] = split_heads(%x) {heads=2, kv_heads=2} @capped !stored_attention
  %capped.scores: f32[3,2,6,6] = matmul(%capped.heads, %capped.heads.k) {trans_a=false, trans_b=true} @capped !stored_attention
  %capped.scores.scaled: f32[3,2,6,6] = scale(%capped.scores) {factor=0.25} @capped !stored_attention
  %capped.scores.capped: f32[3,2,6,6] = softcap(%capped.scores.scaled) {cap=50.0} @capped !stored_attention
  %capped.probabilities: f32[3,2,6,6] = masked_softmax(%capped.scores.capped) {causal=true, scale=1.0} @capped !stored_attention
  %capped.mixed: f32[3,2,6,4] = matmul(%capped.probabilities, %capped.heads.v) {trans_a=false, trans_b=false} @capped !stored_attention
  %b: f32[3,6,8] = merge_heads(%capped.mixed) {heads=2, kv_heads=2} @capped !stored_attention
)");
}

TEST(StoredAttention, LeavesDocumentsApartAndWindows) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[3,6,24] input persistent
  tensor %positions: i32[3,6] input persistent
forward
  %out: f32[3,6,8], _ = attention(%x, _, _, %positions) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2}
  %near: f32[3,6,8], _ = attention(%x, _) {causal=true, dropout=0.0, heads=2, key=0, kv_heads=2, window=4}
)";
  Program program = Parse(kText);
  EXPECT_FALSE(HasAttention(program));
  EXPECT_FALSE(StoredAttention().Run(program).changed);
  ExpectProgram(program, kText);
}

TEST(StoredAttention, LeavesProgramsWithoutAttention) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[4] input persistent
forward
  %y: f32[4] metric = scale(%x) {factor=2.0}
)";
  Program program = Parse(kText);
  EXPECT_FALSE(HasAttention(program));
  EXPECT_FALSE(StoredAttention().Run(program).changed);
  ExpectProgram(program, kText);
}

}  // namespace
}  // namespace plimsoll::ops
