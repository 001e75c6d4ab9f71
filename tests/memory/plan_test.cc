#include "memory/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "memory/checker.h"
#include "memory/lifetimes.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"

namespace plimsoll::memory {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Value;

Attributes N(int64_t n) { return {{"n", n}, {"seed", int64_t{1}}}; }

std::vector<const Program*> Pointers(const std::vector<Program>& programs) {
  std::vector<const Program*> pointers;
  for (const Program& program : programs) pointers.push_back(&program);
  return pointers;
}

std::vector<Program> RandomStep(uint32_t seed, bool host) {
  std::vector<Program> programs;
  for (uint32_t p = 0; p < 1 + seed % 3; ++p) {
    RandomProgramOptions options;
    options.nodes = 5 + static_cast<int>(seed * 7 % 90) / static_cast<int>(p + 1);
    options.persistent_seed = seed;
    options.host_tensors = host;
    programs.push_back(RandomProgram(seed * 10 + p, options));
    programs.back().set_name("program" + std::to_string(p));
    runtime::AddWorkspaces(programs.back(), {.threads = 2});
  }
  return programs;
}

TEST(Plan, RandomStepsAreSoundAndTight) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Program> programs = RandomStep(seed, seed % 4 == 0);
    const auto pointers = Pointers(programs);
    PlanOptions options;
    options.in_place = seed % 5 != 0;
    options.search_work = 500'000;
    const MemoryPlan plan = MakePlan(pointers, options);
    ASSERT_NO_THROW(CheckPlan(pointers, plan));
    EXPECT_GE(plan.arena_bytes, plan.max_live_bytes);
    EXPECT_GE(plan.host_arena_bytes, plan.host_max_live_bytes);
    EXPECT_LE(plan.fragmentation, 0.15);
    EXPECT_EQ(std::accumulate(plan.bytes_by_role.begin(), plan.bytes_by_role.end(), int64_t{0}),
              plan.max_live_bytes);
    int64_t scopes = 0;
    for (const auto& [scope, bytes] : plan.bytes_by_scope) scopes += bytes;
    EXPECT_EQ(scopes, plan.max_live_bytes);
    int64_t largest = 0;
    for (const ProgramPlan& program : plan.programs) {
      largest = std::max(largest, program.temporary_bytes);
      EXPECT_EQ(program.max_live_bytes,
                *std::max_element(program.live_bytes.begin(), program.live_bytes.end()));
      EXPECT_EQ(program.live_bytes[program.peak_node], program.max_live_bytes);
    }
    int64_t live = 0;
    for (const LiveTensor& tensor : plan.peak_live) live += tensor.bytes;
    EXPECT_EQ(live, plan.max_live_bytes);
    EXPECT_EQ(plan.arena_bytes, plan.persistent_bytes + largest);

    const MemoryPlan again = MakePlan(pointers, options);
    for (size_t p = 0; p < programs.size(); ++p) {
      EXPECT_EQ(plan.programs[p].layout.offsets, again.programs[p].layout.offsets);
    }
  }
}

// Buffers that are alive together don't overlap, lie above the persistent tensors and within their
// arena, and their bytes add up to the plan's number at each node.
TEST(Plan, PlacesAndCountsTheBuffers) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const bool in_place = seed % 4 != 0;
    Program p = RandomProgram(seed, {.host_tensors = seed % 3 == 0});
    runtime::AddWorkspaces(p, {.threads = 2});
    const Program* programs[] = {&p};
    const MemoryPlan plan = MakePlan(programs, {.in_place = in_place});
    const Lifetimes lifetimes = ComputeLifetimes(p, in_place);
    auto begin = [&](const Buffer& buffer) {
      return plan.programs[0].layout.offset(buffer.tensors.front());
    };
    auto end = [&](const Buffer& buffer) {
      return begin(buffer) + RoundUp(buffer.bytes, plan.alignment);
    };
    std::vector<int64_t> live(p.nodes().size(), plan.persistent_bytes);
    std::vector<int64_t> host_live(p.nodes().size(), plan.host_persistent_bytes);
    for (const Buffer& a : lifetimes.buffers) {
      const bool host = a.place == graph::Place::kHost;
      EXPECT_GE(begin(a), host ? plan.host_persistent_bytes : plan.persistent_bytes);
      EXPECT_LE(end(a), host ? plan.host_arena_bytes : plan.arena_bytes);
      for (int32_t n = a.birth; n <= a.death; ++n)
        (host ? host_live : live)[n] += end(a) - begin(a);
      for (const Buffer& b : lifetimes.buffers) {
        if (&a == &b || a.place != b.place || a.death < b.birth || b.death < a.birth) continue;
        EXPECT_TRUE(end(a) <= begin(b) || end(b) <= begin(a))
            << p.tensor(a.tensors[0]).name << " and " << p.tensor(b.tensors[0]).name;
      }
    }
    EXPECT_EQ(live, plan.programs[0].live_bytes);
    EXPECT_EQ(host_live, plan.programs[0].host_live_bytes);
  }
}

TEST(Plan, InPlaceNeedsNoMoreMemory) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const std::vector<Program> programs = RandomStep(seed, false);
    const auto pointers = Pointers(programs);
    PlanOptions apart;
    apart.in_place = false;
    EXPECT_LE(MakePlan(pointers).max_live_bytes, MakePlan(pointers, apart).max_live_bytes) << seed;
  }
}

TEST(Plan, ProgramsShareTheArenaAboveThePersistentPrefix) {
  Program train("train");
  Builder t(train);
  const Value w = t.Persistent("w", Role::kParameter, Float32(16));
  t.Persistent("m", Role::kOptimizerState, Float32(20));
  const Value a = t.Emit1("test_source", {}, N(160));
  t.Emit("test_mix", {a, w}, N(16), "", {true, false});
  Program eval("eval");
  Builder e(eval);
  const Value x = e.Emit1("test_source", {}, N(32));
  const Value w2 = e.Persistent("w", Role::kParameter, Float32(16));
  e.Emit("test_mix", {x, w2}, N(16), "", {true, false});

  const std::vector<const Program*> programs = {&train, &eval};
  const MemoryPlan plan = MakePlan(programs);
  EXPECT_EQ(plan.persistent_bytes, 64 + 128);
  EXPECT_EQ(plan.arena_bytes, 192 + 640 + 64);
  EXPECT_EQ(plan.max_live_bytes, plan.arena_bytes);
  EXPECT_EQ(plan.fragmentation, 0);
  EXPECT_EQ(plan.peak_program, 0);
  EXPECT_EQ(plan.programs[1].temporary_bytes, 128 + 64);
  EXPECT_EQ(plan.programs[0].layout.offset(w), plan.programs[1].layout.offset(w2));
  EXPECT_GE(plan.programs[1].layout.offset(x), plan.persistent_bytes);
  EXPECT_EQ(plan.bytes_of(Role::kParameter), 64);
  EXPECT_EQ(plan.bytes_of(Role::kOptimizerState), 128);
  EXPECT_EQ(plan.bytes_of(Role::kActivation), 704);
  ASSERT_EQ(plan.persistent.size(), 2u);
  EXPECT_EQ(plan.persistent[0].name, "w");
  EXPECT_EQ(plan.persistent[1].offset, 64);
}

TEST(Plan, PersistentTensorsMustAgree) {
  Program a("a"), b("b");
  Builder(a).Persistent("w", Role::kParameter, Float32(16));
  Builder(b).Persistent("w", Role::kParameter, Float32(17));
  const std::vector<const Program*> programs = {&a, &b};
  ExpectInternalError([&] { MakePlan(programs); }, {"'w'", "f32[16]", "f32[17]"});
}

TEST(Plan, PeakNamesWhereAndWhat) {
  Program p("step");
  Builder g(p);
  g.set_scope("block.0.mlp");
  const Value a = g.Emit1("test_source", {}, N(100));
  g.set_scope("block.1.mlp");
  const Value b = g.Emit1("test_mix", {a}, N(200), "fc");
  g.set_scope("head");
  g.Emit1("test_mix", {b}, N(16));
  const std::vector<const Program*> programs = {&p};
  const MemoryPlan plan = MakePlan(programs);
  const ProgramPlan& step = plan.programs[0];
  EXPECT_EQ(step.peak_node, 1);
  EXPECT_EQ(step.peak_at, "node 1 of 3: test_mix in block.1.mlp, forward");
  // The unused second output of test_mix is included too: 7 floats.
  ASSERT_EQ(plan.peak_live.size(), 3u);
  EXPECT_EQ(plan.peak_live[0].name, "block.1.mlp.fc");
  EXPECT_EQ(plan.peak_live[0].op, "test_mix");
  EXPECT_EQ(plan.peak_live[0].scope, "block.1.mlp");
  EXPECT_EQ(plan.peak_live[0].bytes, 832);
  EXPECT_EQ(plan.peak_live[1].op, "test_source");
  EXPECT_EQ(plan.peak_live[1].scope, "block.0.mlp");
  EXPECT_EQ(step.live_bytes, (std::vector<int64_t>{448, 448 + 832 + 64, 832 + 64 + 64}));
}

// Of the tensors that overwrite one another, the last one before the peak counts.
TEST(Plan, PeakNamesWhoHoldsTheBytesThen) {
  Program p("train");
  Builder g(p);
  g.set_scope("block.0");
  const Value a = g.Emit1("test_source", {}, N(100), "a");
  g.set_scope("block.1");
  const Value b = g.Emit1("test_unary", {a}, {}, "b");
  const Value more = g.Emit1("test_source", {}, N(16), "more");
  g.Emit1("test_unary", {b}, {}, "c");
  g.Emit1("test_unary", {more});
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  ASSERT_EQ(plan.peak_live.size(), 2u);
  EXPECT_EQ(plan.peak_live[0].name, "block.1.b");
  EXPECT_EQ(plan.peak_live[0].op, "test_unary");
  EXPECT_EQ(plan.peak_live[0].bytes, 448);
  EXPECT_EQ(plan.peak_live[1].name, "block.1.more");
}

TEST(Plan, UntouchedTemporariesHaveNoMemory) {
  Program p;
  graph::Tensor tensor;
  tensor.name = "unused";
  tensor.type = Float32(1000);
  const Value unused = p.AddTensor(tensor);
  Builder(p).Emit1("test_source", {}, N(1));
  const std::vector<const Program*> programs = {&p};
  const MemoryPlan plan = MakePlan(programs);
  EXPECT_EQ(plan.programs[0].layout.offset(unused), runtime::kUnplaced);
  EXPECT_EQ(plan.arena_bytes, 64);
}

TEST(Plan, NothingAtAll) {
  const MemoryPlan none = MakePlan({});
  EXPECT_EQ(none.arena_bytes, 0);
  EXPECT_EQ(none.peak_program, -1);
  const Program empty("empty");
  const std::vector<const Program*> programs = {&empty};
  const MemoryPlan plan = MakePlan(programs);
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(plan.programs[0].peak_node, -1);
  CheckPlan(programs, plan);
}

TEST(Plan, StarNumbers) {
  EXPECT_EQ(StarNumbers("block.12.attn"), "block.*.attn");
  EXPECT_EQ(StarNumbers("3"), "*");
  EXPECT_EQ(StarNumbers(""), "");
  EXPECT_EQ(StarNumbers("norm_1.0x"), "norm_1.0x");
}

}  // namespace
}  // namespace plimsoll::memory
