#include <gtest/gtest.h>

#include "graph/builder.h"
#include "memory/report.h"
#include "tests/runtime/test_ops.h"

namespace plimsoll::memory {
namespace {

using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Value;

Program Small() {
  Program p("train");
  Builder g(p);
  const Value w = g.Persistent("block.0.fc.weight", Role::kParameter, Float32(1024));
  g.Persistent("block.0.fc.weight.m", Role::kOptimizerState, Float32(2048));
  g.set_scope("block.0.fc");
  const Value a = g.Emit("test_mix", {w}, {{"n", int64_t{512}}}, "", {true, false})[0];
  g.set_scope("block.1.fc");
  const Value b = g.Emit("test_mix", {a}, {{"n", int64_t{256}}}, "", {true, false})[0];
  g.set_scope("head");
  g.Emit1("test_unary", {b});
  return p;
}

TEST(RunSummary, SaysWhereTheMemoryWent) {
  const Program p = Small();
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  runtime::AllocatorStats replayed;
  replayed.peak_allocated = 16 << 10;
  replayed.peak_reserved = 2 << 20;
  replayed.segments = 1;
  MemoryFacts facts{.programs = programs, .plan = plan};
  facts.caching = {replayed, {}};
  EXPECT_EQ(RunSummary(facts),
            R"(Memory summary, allocator planned
  role                                now       peak  peak at
  parameters                     4.00 KiB   4.00 KiB  throughout
  optimizer state                8.00 KiB   8.00 KiB  throughout
  activations                         0 B   3.00 KiB  train, node 1 of 3: test_mix in block.1.fc, forward
  in all                         12.0 KiB   15.0 KiB  train, node 1 of 3: test_mix in block.1.fc, forward

  op kinds by bytes at the peak                 bytes    share
  (persistent tensors)                       12.0 KiB   80.0 %
  test_mix                                   3.00 KiB   20.0 %

  scopes by bytes at the peak                   bytes    share
  block.*.fc                                 15.0 KiB  100.0 %

  allocator                        in use   reserved  fragmentation  segments
  planned                        15.0 KiB   15.0 KiB         0.00 %         1
  caching, replayed              16.0 KiB   2.00 MiB     12700.00 %         1)");
}

TEST(RunSummary, OrdersByTimeToo) {
  const Program p = Small();
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  MemoryFacts facts{.programs = programs, .plan = plan};
  facts.node_seconds = {{0.001, 0.002, 0.007}};
  facts.by_time = true;
  facts.caching.emplace();
  facts.used = true;
  const std::string text = RunSummary(facts);
  EXPECT_NE(text.find(R"(
  op kinds by time                              bytes    share   ms a step    share
  test_unary                                      0 B    0.0 %        7.00   70.0 %
  test_mix                                   3.00 KiB   20.0 %        3.00   30.0 %
  (persistent tensors)                       12.0 KiB   80.0 %        0.00    0.0 %

  scopes by time                                bytes    share   ms a step    share
  head                                            0 B    0.0 %        7.00   70.0 %
  block.*.fc                                 15.0 KiB  100.0 %        3.00   30.0 %
)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("allocator caching\n"), std::string::npos) << text;
  EXPECT_NE(text.find("planned, not used"), std::string::npos) << text;
}

// A parameter, its moments and its update belong to the part of the model that reads it; tensors
// on the host have rows of their own.
TEST(RunSummary, FindsTheScopeOfWhatPersists) {
  Program p("train");
  Builder g(p);
  const Value w = g.Persistent("block.3.mlp.fc.weight", Role::kParameter, Float32(1024));
  const Value e = g.Persistent("embed.weight", Role::kParameter, Float32(256));
  const Value m = g.Persistent("embed.weight.m", Role::kOptimizerState, Float32(512));
  p.mutable_tensor(m).place = graph::Place::kHost;
  g.set_scope("block.3.mlp");
  const Value x = g.Emit1("test_source", {}, {{"n", int64_t{16}}, {"seed", int64_t{1}}});
  g.set_scope("block.3.mlp.fc.weight");
  g.set_phase(graph::Phase::kUpdate);
  g.EmitInto({w}, "test_update", {w, x});
  g.set_scope("embed.weight");
  g.EmitInto({e}, "test_update", {e, x});
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  MemoryFacts facts{.programs = programs, .plan = plan};
  facts.node_seconds = {{0.001, 0.002, 0.001}};
  facts.caching.emplace();
  const std::string text = RunSummary(facts);
  for (const char* part :
       {"\n  block.*.mlp                                4.06 KiB   80.2 %        3.00   75.0 %\n",
        "\n  embed                                      1.00 KiB   19.8 %        1.00   25.0 %\n",
        "\n  optimizer state, host          2.00 KiB   2.00 KiB  throughout\n",
        "\n  planned, host                  2.00 KiB   2.00 KiB         0.00 %         1\n",
        "\n  caching, replayed, host "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

// Ten rows, and one row for the rest.
TEST(RunSummary, TenScopesAndTheOthers) {
  Program p("train");
  Builder g(p);
  std::vector<Value> values;
  for (char c = 'a'; c < 'a' + 13; ++c) {
    g.set_scope(std::string(1, c));
    values.push_back(
        g.Emit("test_mix", values, {{"n", int64_t{16 * (c - 'a' + 1)}}}, "", {true, false})[0]);
  }
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  const std::string text = RunSummary({.programs = programs, .plan = plan});
  EXPECT_NE(text.find("\n  3 others                                      384 B"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("\n  c "), std::string::npos) << text;
}

TEST(RunSummary, NothingAtAll) {
  const MemoryPlan plan = MakePlan({});
  EXPECT_NE(RunSummary({.programs = {}, .plan = plan}).find("planned"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::memory
