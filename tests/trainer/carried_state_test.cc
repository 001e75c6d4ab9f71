#include "trainer/step/carried_state.h"

#include <gtest/gtest.h>

#include "tests/graph/expect_program.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

// Of state that two ranks both have, each copies its part, if the tensor is large enough.
// Gradients, inputs and metrics end with the step.
TEST(CarriedState, IsCopied) {
  const graph::Program step = graph::Parse(R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[32,32] parameter persistent
  tensor %a.grad: f32[32,32] gradient persistent
  tensor %a.m: f32[512] optimizer_state persistent host
  tensor %count: i32[] optimizer_state persistent
  tensor %loss: f32[] metric persistent
  %y: f32[4,32] = linear(%x, %a, _)
  %loss = sum(%y)
)");
  const graph::Program* const programs[] = {&step, &step};
  graph::ExpectProgram(*CopyCarriedState(programs, 2, graph::Place::kHost), R"(program snapshot
  tensor %a: f32[32,32] parameter persistent
  tensor %a.snapshot: f32[512] snapshot persistent host
  tensor %a.m: f32[512] optimizer_state persistent host
  tensor %a.m.snapshot: f32[512] snapshot persistent host
  tensor %count: i32[] optimizer_state persistent
  tensor %count.snapshot: i32[] snapshot persistent host
forward
  %a.own: f32[512] view %a+own = own_part(%a) {d0=512, rank=1} @a !snapshot
  %a.snapshot = copy_start(%a.own) @a !snapshot
  %a.m.snapshot = copy_start(%a.m) @a.m !snapshot
  %count.snapshot = copy_start(%count) @count !snapshot
  %a.snapshot.done: f32[512] host view %a.snapshot+0 = copy_done(%a.snapshot, %a.own) @a.snapshot !snapshot
  %a.m.snapshot.done: f32[512] host view %a.m.snapshot+0 = copy_done(%a.m.snapshot, %a.m) @a.m.snapshot !snapshot
  %count.snapshot.done: i32[] host view %count.snapshot+0 = copy_done(%count.snapshot, %count) @count.snapshot !snapshot
)");
}

class CopiedState : public testing::TestWithParam<TinyRun> {};

TEST_P(CopiedState, IsThatBetweenTwoSteps) {
  TinyRun run = GetParam();
  run.steps = 3;
  const TinyResult shorter = Train(run);
  run.steps = 6;
  const TinyResult expected = Train(run);
  run.copy_after = 2;
  run.executor.check_arena = !run.caching;
  const TinyResult copied = Train(run);
  EXPECT_EQ(copied.losses, expected.losses);
  EXPECT_EQ(copied.state, expected.state);
  EXPECT_EQ(copied.copied, shorter.state);
  EXPECT_NE(copied.copied, copied.state);
  int64_t bytes = 0;
  for (const auto& [name, values] : copied.copied) bytes += (int64_t(values.size()) + 63) / 64 * 64;
  EXPECT_EQ(copied.arena_bytes, expected.arena_bytes + bytes);
  if (!run.caching) {
    EXPECT_EQ(copied.used_bytes, copied.arena_bytes);
  }
}

std::vector<TinyRun> Runs() {
  std::vector<TinyRun> runs(5);
  runs[1].amp.dtype = graph::DType::kBFloat16;
  runs[1].accumulate = 3;
  runs[2].state_on_host = true;
  runs[2].update.state_dtype = optim::StateDType::kInt8;
  runs[3].caching.emplace();
  runs[4].amp.dtype = graph::DType::kFloat16;
  runs[4].update.loss_scale = ops::LossScaleOptions{};
  runs[4].executor.poison = true;
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Ways, CopiedState, testing::ValuesIn(Runs()));

}  // namespace
}  // namespace plimsoll::trainer
