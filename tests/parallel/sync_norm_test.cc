#include "parallel/sync_norm.h"

#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using graph::ExpectProgram;
using graph::Parse;

TEST(SyncNorm, AllReadersReadTheMergedStatistics) {
  graph::Program program = Parse(R"(program p
  tensor %x: f32[4,2,2,3] input persistent
  tensor %w: f32[3] parameter persistent
  tensor %b: f32[3] parameter persistent
  tensor %v: f32[3] state persistent
forward
  %s: f32[1,3], %s.variance: f32[1,3], %s.unbiased: f32[1,3] = batch_norm_statistics(%x) {groups=1} @n
  %v = moving_average(%v, %s.unbiased) {momentum=0.1} @n
  %y: f32[4,2,2,3] metric = batch_norm(%x, %s, %s.variance, %w, %b) {eps=1e-05}
)");
  SyncNorm pass(2);
  const graph::PassResult result = pass.Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "1 norm over 2 ranks");
  ExpectProgram(program, R"(program p
  tensor %x: f32[4,2,2,3] input persistent
  tensor %w: f32[3] parameter persistent
  tensor %b: f32[3] parameter persistent
  tensor %v: f32[3] state persistent
forward
  %s: f32[1,3], %s.variance: f32[1,3], %s.unbiased: f32[1,3] = batch_norm_statistics(%x) {groups=1} @n
  %n.means: f32[2,3] = all_gather_start(%s) {axis="data", d0=2, d1=3, rank=2} @n !sync_norm
  %n.means.2: f32[2,3] view %n.means+0 = all_gather_done(%n.means, %s) @n !sync_norm
  %n.variances: f32[2,3] = all_gather_start(%s.variance) {axis="data", d0=2, d1=3, rank=2} @n !sync_norm
  %n.variances.2: f32[2,3] view %n.variances+0 = all_gather_done(%n.variances, %s.variance) @n !sync_norm
  %n.merged_statistics: f32[1,3], %n.merged_statistics.variance: f32[1,3], %n.merged_statistics.unbiased: f32[1,3] = merge_batch_norm_statistics(%n.means.2, %n.variances.2) {n=16} @n !sync_norm
  %v = moving_average(%v, %n.merged_statistics.unbiased) {momentum=0.1} @n
  %y: f32[4,2,2,3] metric = batch_norm(%x, %n.merged_statistics, %n.merged_statistics.variance, %w, %b) {eps=1e-05}
)");
}

// Groups of samples are of one rank.
TEST(SyncNorm, LeavesGroupsAlone) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[4,5,3] input persistent
forward
  %s: f32[2,3], %s.variance: f32[2,3], _ = batch_norm_statistics(%x) {groups=2}
  %y: f32[2,3] metric = add(%s, %s.variance)
)";
  graph::Program program = Parse(kText);
  EXPECT_FALSE(SyncNorm(2).Run(program).changed);
  ExpectProgram(program, kText);
}

}  // namespace
}  // namespace plimsoll::parallel
