#include "runtime/state_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/expect_program.h"

namespace plimsoll::runtime {
namespace {

// Each group of copies has a mark; the parts that are copied are views.
TEST(StateReads, AMarkFollowsEachGroup) {
  const graph::Program beside = graph::Parse(R"(program snapshot
  tensor %a: f32[32,32] parameter persistent
  tensor %a.m: f32[1024] optimizer_state persistent host
  tensor %b: f32[8] parameter persistent
  tensor %c: f32[8] parameter persistent
  tensor %a.snapshot: f32[512] snapshot persistent host
  tensor %a.m.snapshot: f32[1024] snapshot persistent host
  tensor %b.snapshot: f32[8] snapshot persistent host
forward
  %a.own: f32[512] view %a+own = own_part(%a) {d0=512, rank=1}
  %a.snapshot = copy_start(%a.own)
  %a.m.snapshot = copy_start(%a.m)
  %a.done: f32[512] host view %a.snapshot+0 = copy_done(%a.snapshot, %a.own)
  %a.m.done: f32[1024] host view %a.m.snapshot+0 = copy_done(%a.m.snapshot, %a.m)
  %b.snapshot = copy_start(%b)
  %b.done: f32[8] host view %b.snapshot+0 = copy_done(%b.snapshot, %b)
)");
  const StateReads reads(beside);
  EXPECT_THAT(reads.marks(), testing::ElementsAre(4, 6));

  const graph::Program step = graph::Parse(R"(program train
  tensor %a: f32[32,32] parameter persistent
  tensor %a.m: f32[1024] optimizer_state persistent host
  tensor %b: f32[8] parameter persistent
  tensor %c: f32[8] parameter persistent
  tensor %b.grad: f32[8] gradient persistent of %b as gradient
  tensor %m: f32[1024] activation
forward
  %x: f32[8] = scale(%b) {factor=2}
  %b.grad = scale(%x) {factor=2}
  %m = scale(%a.m) {factor=2}
  %a.m = copy_start(%m)
  %a.m.stored: f32[1024] host view %a.m+0 = copy_done(%a.m, %m)
  %c = scale(%x) {factor=2}
  %b = scale(%x) {factor=2}
)");
  std::vector<int> marks;
  for (const graph::Node& node : step.nodes()) marks.push_back(reads.MarkBefore(step, node));
  constexpr int kNone = StateReads::kNoMark;
  EXPECT_THAT(marks, testing::ElementsAre(kNone, kNone, kNone, 0, kNone, kNone, 1));
}

// What ranks gather is no change of a rank's own part; a program that copies nothing has one mark,
// its end.
TEST(StateReads, GatheringChangesNothing) {
  const graph::Program beside = graph::Parse(R"(program beside
  tensor %a: f32[32] parameter persistent
forward
  %x: f32[32] = scale(%a) {factor=2}
  %y: f32[32] = scale(%x) {factor=2}
)");
  const StateReads reads(beside);
  EXPECT_THAT(reads.marks(), testing::ElementsAre(1));
  const graph::Program step = graph::Parse(R"(program train
  tensor %a: f32[32] parameter persistent
forward
  %a.own: f32[16] view %a+own = own_part(%a) {d0=16, rank=1}
  %a = all_gather_start(%a.own) {axis="data", d0=32, rank=1}
  %x: f32[32] = scale(%a) {factor=2}
  %a = scale(%x) {factor=2}
)");
  std::vector<int> marks;
  for (const graph::Node& node : step.nodes()) marks.push_back(reads.MarkBefore(step, node));
  EXPECT_EQ(marks.back(), 0);
  marks.pop_back();
  EXPECT_THAT(marks, testing::Each(StateReads::kNoMark));
}

}  // namespace
}  // namespace plimsoll::runtime
