// Tables and traces of profiled steps: for made-up times with known sums, and for a real session on
// the CPU.
#include "trainer/record/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using runtime::NodeTime;

CompiledStep TinyStep(int64_t accumulate = 1) {
  const auto model = models::MakeModel(TinyGpt2());
  CompileOptions options;
  options.micro_batch = 4;
  options.sequence = 16;
  options.accumulate = accumulate;
  return Compile(*model, options);
}

// Each node takes a microsecond, one after the other.
ProgramRun EachAMicrosecond(const CompiledStep& compiled, int program, int64_t step) {
  ProgramRun run;
  run.step = step;
  run.program = program;
  const auto& nodes = compiled.programs[program]->nodes();
  std::vector<int64_t> nanoseconds;
  for (const graph::Node& node : nodes) nanoseconds.push_back(node.op->view ? 0 : 1000);
  run.nodes = InSequence(nanoseconds);
  return run;
}

TEST(Profile, NodesFollowOneAnotherAndViewsTakeNoPlace) {
  const std::vector<NodeTime> times = InSequence({2000, 0, 500});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].node, 0);
  EXPECT_EQ(times[1].node, 2);
  EXPECT_DOUBLE_EQ(times[1].start_us, 2);
  EXPECT_DOUBLE_EQ(times[1].end_us, 2.5);
}

TEST(Profile, GroupsAddUpToAnAverageStep) {
  const CompiledStep compiled = TinyStep();
  const std::vector<ProgramRun> runs = {EachAMicrosecond(compiled, 0, 3),
                                        EachAMicrosecond(compiled, 0, 4)};
  const double nodes = static_cast<double>(runs[0].nodes.size());
  const Profile profile = MakeProfile(compiled, runs, {});
  EXPECT_EQ(profile.steps, 2);
  EXPECT_NEAR(profile.step_seconds, nodes * 1e-6, 1e-12);
  EXPECT_NEAR(profile.node_seconds(), nodes * 1e-6, 1e-12);
  EXPECT_EQ(profile.floor_seconds(), 0);
  double count = 0, flops = 0;
  for (const OpGroup& group : profile.groups) {
    count += group.nodes;
    flops += group.flops;
  }
  EXPECT_DOUBLE_EQ(count, nodes);
  EXPECT_NEAR(flops, compiled.flops_per_step, 1e-6 * flops);
  for (size_t i = 1; i < profile.groups.size(); ++i) {
    EXPECT_GE(profile.groups[i - 1].seconds, profile.groups[i].seconds);
  }
}

TEST(Profile, MicroStepsOfOneStepAreOneStep) {
  const CompiledStep compiled = TinyStep(3);
  std::vector<ProgramRun> runs;
  for (int64_t run = 0; run < 3; ++run) {
    runs.push_back(EachAMicrosecond(compiled, compiled.step.At(run).program, 0));
  }
  const Profile profile = MakeProfile(compiled, runs, {});
  EXPECT_EQ(profile.steps, 1);
  double flops = 0;
  for (const OpGroup& group : profile.groups) flops += group.flops;
  EXPECT_NEAR(flops, compiled.flops_per_step, 1e-6 * flops);
}

TEST(Profile, FloorsAreFlopsForProductsAndBytesForAllElse) {
  const CompiledStep compiled = TinyStep();
  runtime::Ceilings ceilings;
  ceilings.copy_bytes = 1e12;
  ceilings.fp32_flops = 1e9;  // so slow that products are bound by it
  const Profile profile = MakeProfile(compiled, {EachAMicrosecond(compiled, 0, 0)}, ceilings);
  int products = 0, others = 0;
  for (const OpGroup& group : profile.groups) {
    const bool product = group.op.starts_with("linear") || group.op.starts_with("attention");
    EXPECT_EQ(group.bound_by_flops, product) << group.op;
    EXPECT_NEAR(group.floor_seconds, product ? group.flops / 1e9 : group.bytes / 1e12,
                1e-9 * group.floor_seconds)
        << group.op;
    ++(product ? products : others);
  }
  EXPECT_GT(products, 0);
  EXPECT_GT(others, 0);
}

TEST(Profile, TableNamesWhatIsLeftOut) {
  const CompiledStep compiled = TinyStep();
  const Profile profile = MakeProfile(compiled, {EachAMicrosecond(compiled, 0, 0)}, {});
  const std::vector<OpGroup> by_op = profile.ByOp();
  const std::string table = ProfileTable(profile, by_op, 2);
  ExpectText(table,
             {by_op[0].op, by_op[1].op, std::to_string(by_op.size() - 2) + " more", "100.0%"});
}

TEST(Profile, TraceHasEveryNodeOnItsTrackAndTheBytesAlive) {
  const CompiledStep compiled = TinyStep();
  ProgramRun run = EachAMicrosecond(compiled, 0, 0);
  run.start_us = 1000;
  run.nodes[1].stream = 2;
  const json trace = json::parse(TraceJson(compiled, {run}, "a device"));
  size_t nodes = 0, counters = 0, phases = 0;
  int64_t highest = 0;
  bool named = false;
  for (const json& event : trace.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind == "M") named = named || event.at("args").at("name") == "a device";
    if (kind == "C") {
      ++counters;
      highest = std::max<int64_t>(highest, event.at("args").at("device"));
    }
    if (kind != "X") continue;
    if (event.at("tid") == 0) {
      ++phases;
      continue;
    }
    EXPECT_EQ(event.at("ts").get<double>(), 1000 + run.nodes[nodes].start_us);
    EXPECT_EQ(event.at("tid").get<int>(), 1 + run.nodes[nodes].stream);
    EXPECT_EQ(event.at("args").at("op"),
              compiled.programs[0]->nodes()[run.nodes[nodes].node].op->name);
    ++nodes;
  }
  EXPECT_EQ(nodes, run.nodes.size());
  EXPECT_EQ(counters, run.nodes.size());
  EXPECT_EQ(phases, 3u) << "forward, backward, update";
  EXPECT_EQ(highest, compiled.plan.max_live_bytes);
  EXPECT_TRUE(named);
}

TEST(Profile, CollectorSeesEachMicroStepByItself) {
  const auto model = models::MakeModel(TinyGpt2());
  ThreadPool pool(1);
  Session session(TinyStep(2), pool, {.profile = true});
  session.Initialize(*model, 1);
  ProfileCollector collector(session);
  for (int64_t step = 0; step < 2; ++step) {
    session.BeginStep(128, 1e-3, 1);
    for (int64_t micro = 0; micro < 2; ++micro) {
      collector.Before(micro);
      session.Run(step, micro);
      collector.After(step, micro);
    }
  }
  const std::vector<ProgramRun>& runs = collector.runs();
  ASSERT_EQ(runs.size(), 4u);
  const StepPrograms& programs = session.compiled().step;
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].step, static_cast<int64_t>(i / 2));
    EXPECT_EQ(runs[i].program, programs.At(static_cast<int64_t>(i % 2)).program);
    ASSERT_FALSE(runs[i].nodes.empty());
    if (i == 0) continue;
    // Earlier runs are not counted again, so nothing overlaps.
    EXPECT_GE(runs[i].start_us, runs[i - 1].start_us + runs[i - 1].nodes.back().end_us);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
