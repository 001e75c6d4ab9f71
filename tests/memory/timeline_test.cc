#include "memory/timeline.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"

namespace plimsoll::memory {
namespace {

using graph::Builder;
using graph::Place;
using graph::Program;
using graph::Role;
using graph::Value;

// Buffers that are alive together don't overlap, lie above the persistent tensors and within their
// arena, and their bytes add up to the plan's number at each node.
TEST(Timeline, AgreesWithThePlan) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Program p = RandomProgram(seed, {.host_tensors = seed % 3 == 0});
    runtime::AddWorkspaces(p, 2);
    const Program* programs[] = {&p};
    const MemoryPlan plan = MakePlan(programs, {.in_place = seed % 4 != 0});
    const ProgramTimeline timeline = MakeTimelines(programs, plan, seed % 4 != 0)[0];
    EXPECT_EQ(timeline.live_bytes, plan.programs[0].live_bytes);

    std::vector<int64_t> live(p.nodes().size(), plan.persistent_bytes);
    for (const TimelineBuffer& a : timeline.buffers) {
      const bool host = a.place == Place::kHost;
      EXPECT_GE(a.offset, host ? plan.host_persistent_bytes : plan.persistent_bytes);
      EXPECT_LE(a.offset + a.bytes, host ? plan.host_arena_bytes : plan.arena_bytes);
      for (int32_t n = a.birth; n <= a.death && !host; ++n) live[n] += a.bytes;
      for (const TimelineBuffer& b : timeline.buffers) {
        if (&a == &b || a.place != b.place || a.death < b.birth || b.death < a.birth) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
            << a.tensors[0].name << " and " << b.tensors[0].name;
      }
      // The tensors of a buffer follow one another without a gap.
      EXPECT_EQ(a.tensors.front().birth, a.birth);
      EXPECT_EQ(a.tensors.back().death, a.death);
      for (size_t i = 0; i + 1 < a.tensors.size(); ++i) {
        EXPECT_EQ(a.tensors[i].death + 1, a.tensors[i + 1].birth);
      }
    }
    EXPECT_EQ(live, plan.programs[0].live_bytes);
  }
}

TEST(Timeline, NamesWhoHoldsTheBytes) {
  Program p("train");
  Builder g(p);
  g.set_scope("block.0");
  const Value a = g.Emit1("test_source", {}, {{"n", int64_t{100}}, {"seed", int64_t{1}}}, "a");
  g.set_scope("block.1");
  const Value b = g.Emit1("test_unary", {a}, {}, "b");
  g.Emit1("test_unary", {b}, {}, "c");
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  const std::vector<TimelineBuffer> buffers = MakeTimelines(programs, plan)[0].buffers;
  ASSERT_EQ(buffers.size(), 1u);
  EXPECT_EQ(buffers[0].bytes, 448);
  EXPECT_EQ(buffers[0].birth, 0);
  EXPECT_EQ(buffers[0].death, 2);
  ASSERT_EQ(buffers[0].tensors.size(), 3u);
  EXPECT_EQ(buffers[0].tensors[0].name, "block.0.a");
  EXPECT_EQ(buffers[0].tensors[0].op, "test_source");
  EXPECT_EQ(buffers[0].tensors[0].death, 0);
  EXPECT_EQ(buffers[0].tensors[1].name, "block.1.b");
  EXPECT_EQ(buffers[0].tensors[1].op, "test_unary");
  EXPECT_EQ(buffers[0].tensors[1].scope, "block.1");
  EXPECT_EQ(buffers[0].tensors[1].role, Role::kActivation);
}

}  // namespace
}  // namespace plimsoll::memory
