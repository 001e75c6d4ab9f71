#include "graph/simplify.h"

#include <gtest/gtest.h>

#include "tests/graph/expect_program.h"

namespace plimsoll::graph {
namespace {

TEST(Simplify, RemovesDeadNodesAndUnreadStatistics) {
  Program program = Parse(R"(program p
  tensor %x: f32[2,4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %dead: f32[2,4] = scale(%x) {factor=2.0}
  %deader: f32[2,4] = scale(%dead) {factor=2.0}
  %y: f32[2,4], %mean: f32[2], %rstd: f32[2] = layer_norm(%x, %w, _) {eps=1e-05}
  %loss = sum(%y)
)");
  const PassResult result = Simplify().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "2 nodes and 2 unread results removed");
  ExpectProgram(program, R"(program p
  tensor %x: f32[2,4] input persistent
  tensor %w: f32[4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %y: f32[2,4], _, _ = layer_norm(%x, %w, _) {eps=1e-05}
  %loss = sum(%y)
)");
  EXPECT_FALSE(Simplify().Run(program).changed);
}

TEST(Simplify, KeepsWhatIsReadThroughAView) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[4] input persistent
  tensor %loss: f32[] metric persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
  %v: f32[2,2] view %y+0 = view(%y) {d0=2, d1=2, rank=2}
  %loss = sum(%v)
)";
  Program program = Parse(kText);
  EXPECT_FALSE(Simplify().Run(program).changed);
  ExpectProgram(program, kText);
}

// A sum in place is read under its own name, but only after its end; what nobody reads has none.
TEST(Simplify, KeepsTheEndOfWhatIsRead) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[4] input persistent
  tensor %most: f32[4] state persistent
forward
  %most = all_reduce_start(%most) {axis="tensor", reduction="max"}
  %reduced: f32[4] view %most+0 = all_reduce_done(%most)
)";
  Program program = Parse(kText);
  EXPECT_FALSE(Simplify().Run(program).changed);
  ExpectProgram(program, kText);
  Program unread = Parse(R"(program p
  tensor %x: f32[4] input persistent
forward
  %sum: f32[4] = all_reduce_start(%x) {axis="data"}
  %reduced: f32[4] view %sum+0 = all_reduce_done(%sum)
)");
  EXPECT_TRUE(Simplify().Run(unread).changed);
  EXPECT_TRUE(unread.nodes().empty());
}

TEST(Simplify, KeepsNamedResults) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[4] input persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
)";
  Program kept = Parse(kText), dropped = Parse(kText);
  EXPECT_FALSE(Simplify({"y"}).Run(kept).changed);
  EXPECT_TRUE(Simplify().Run(dropped).changed);
  EXPECT_TRUE(dropped.nodes().empty());
}

}  // namespace
}  // namespace plimsoll::graph
