// A state that a pass adds, and no model knows of: the largest tokens that a step has read at each
// place of a micro-batch, on all ranks. It is right however a step is divided into micro-steps and
// among ranks, stays as it was where a step is skipped, and is saved and resumed. Started under
// mpirun and alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/optimizer/model_state.h"
#include "snapshots/folder.h"
#include "snapshots/snapshot.h"
#include "tests/parallel/mesh_session.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/save_and_resume/read_snapshot.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using graph::Value;

constexpr char kSeen[] = "seen";
// Tokens from 86 on, times this, are infinite in float32.
constexpr double kOverflowing = 4e36;
constexpr int32_t kFirstOverflowing = 86;

// Adds the state "seen", the maximum of minus each token; or, with `nan`, of x − x, which is 0, or
// NaN where x is infinite.
class LargestTokens : public graph::Pass {
 public:
  LargestTokens(graph::Carry carry, bool nan) : carry_(carry), nan_(nan) {}
  std::string_view name() const override { return "largest_tokens"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kDifferentiated}, .spoils = {}};
  }
  graph::PassResult Run(graph::Program& program) override {
    graph::Builder g(program);
    g.set_phase(graph::Phase::kBackward);
    g.set_scope(kSeen);
    g.set_made_by("largest_tokens");
    const Value tokens = program.Require("tokens");
    const Value pending = g.Persistent(
        graph::PendingName(kSeen), graph::Role::kPending, {DType::kFloat32, g.shape(tokens)},
        graph::Owner{kSeen, graph::OwnedAs::kPending},
        graph::Merge{graph::OverMicroSteps::kMax, graph::OverRanks::kMax});
    Value values = ops::Scale(g, ops::Cast(g, tokens, DType::kFloat32, "tokens"),
                              nan_ ? kOverflowing : -1, "scaled");
    if (nan_) values = ops::Add(g, values, ops::Scale(g, values, -1, "minus"), "difference");
    ops::WritePending(g, pending, values, carry_ != graph::Carry::kAccumulate);
    return {true, "the largest tokens"};
  }

 private:
  const graph::Carry carry_;
  const bool nan_;
};

TinyRun RunOf(int64_t accumulate, int64_t micro_steps_per_program, bool nan) {
  TinyRun run;
  run.micro_batch = 2;
  run.accumulate = accumulate;
  run.micro_steps_per_program = micro_steps_per_program;
  run.update.skips = true;
  run.added_pass = [nan](graph::Carry carry) {
    return std::make_unique<LargestTokens>(carry, nan);
  };
  return run;
}

std::vector<float> LargestOf(const TinyRun& run, int64_t data_ranks, int step) {
  const size_t size = static_cast<size_t>(run.micro_batch * run.sequence);
  std::vector<float> largest(size, 0);
  const std::vector<int32_t> tokens = TokensOf(run, data_ranks, step);
  for (size_t i = 0; i < tokens.size(); ++i) {
    largest[i % size] = std::max(largest[i % size], static_cast<float>(tokens[i]));
  }
  return largest;
}

struct Division {
  int64_t accumulate, micro_steps_per_program, zero;
  bool on_host = false;  // weights, gradients, and the optimizer's state
};

std::vector<Division> Divisions() {
  std::vector<Division> divisions;
  for (const int64_t zero : {0, 3}) {
    if (zero > 0 && TestWorld().size() == 1) continue;
    for (const int64_t accumulate : {1, 2, 3}) {
      divisions.push_back({accumulate, 1, zero});
      if (accumulate > 1) divisions.push_back({accumulate, accumulate, zero});
    }
    divisions.push_back({2, 1, zero, /*on_host=*/true});
    divisions.push_back({2, 2, zero, /*on_host=*/true});
  }
  return divisions;
}

std::string TextOf(const Division& division) {
  return fmt::format("{} micro-steps, {} in a program, ZeRO {}{}", division.accumulate,
                     division.micro_steps_per_program, division.zero,
                     division.on_host ? ", on the host" : "");
}

TEST(CarriedMaximum, IsThatOfAllMicroStepsAndRanks) {
  for (const Division& division : Divisions()) {
    SCOPED_TRACE(TextOf(division));
    TinyRun run = RunOf(division.accumulate, division.micro_steps_per_program, false);
    run.state_on_host = run.weights_on_host = run.gradients_on_host = division.on_host;
    const auto model = models::MakeModel(run.spec);
    MeshSession mesh(run, *model, /*tensor=*/1, division.zero);
    mesh.session().Initialize(*model, 1);
    const int64_t ranks = TestWorld().size();
    for (const int step : {0, 1}) {
      RunStep(mesh, run, step);
      EXPECT_EQ(mesh.session().Read<float>(kSeen), LargestOf(run, ranks, step)) << step;
    }
    RunStep(mesh, run, 2, /*skip=*/true);
    EXPECT_EQ(mesh.session().Metrics().skipped, 1);
    EXPECT_EQ(mesh.session().Read<float>(kSeen), LargestOf(run, ranks, 1));
    RunStep(mesh, run, 3);
    EXPECT_EQ(mesh.session().Read<float>(kSeen), LargestOf(run, ranks, 3));
  }
}

TEST(CarriedMaximum, KeepsNaN) {
  for (const Division& division : Divisions()) {
    SCOPED_TRACE(TextOf(division));
    const TinyRun run = RunOf(division.accumulate, division.micro_steps_per_program, true);
    const auto model = models::MakeModel(run.spec);
    MeshSession mesh(run, *model, /*tensor=*/1, division.zero);
    mesh.session().Initialize(*model, 1);
    RunStep(mesh, run, 0);
    const std::vector<float> seen = mesh.session().Read<float>(kSeen);
    const std::vector<float> largest = LargestOf(run, TestWorld().size(), 0);
    ASSERT_EQ(seen.size(), largest.size());
    int nans = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const bool nan = largest[i] >= kFirstOverflowing;
      EXPECT_EQ(std::isnan(seen[i]), nan) << i;
      if (!nan) {
        EXPECT_EQ(seen[i], 0) << i;
      }
      nans += nan;
    }
    EXPECT_GT(nans, 0);
    EXPECT_LT(nans, static_cast<int>(seen.size()));
  }
}

// Saved by one mesh, and resumed by another.
TEST(CarriedMaximum, IsSavedAndResumed) {
  struct Layout {
    int64_t tensor, zero;
  };
  const bool alone = TestWorld().size() == 1;
  const std::vector<std::pair<Layout, Layout>> moves =
      alone ? std::vector<std::pair<Layout, Layout>>{{{1, 0}, {1, 0}}}
            : std::vector<std::pair<Layout, Layout>>{
                  {{1, 3}, {2, 0}}, {{2, 0}, {1, 3}}, {{1, 0}, {1, 3}}};
  runtime::World& world = TestWorld();
  for (const auto& [from, to] : moves) {
    SCOPED_TRACE(fmt::format("{} tensor ranks with ZeRO {} to {} with ZeRO {}", from.tensor,
                             from.zero, to.tensor, to.zero));
    const TinyRun run = RunOf(2, 1, false);
    const auto model = models::MakeModel(run.spec);
    const TempFolder own;
    const snapshots::Folder folder(world.Broadcast(own.path()));
    const std::vector<float> saved = LargestOf(run, world.size() / from.tensor, 1);
    {
      MeshSession before(run, *model, from.tensor, from.zero);
      before.session().Initialize(*model, 1);
      for (const int step : {0, 1}) RunStep(before, run, step);
      EXPECT_EQ(before.session().Read<float>(kSeen), saved);
      Save(before, folder, 2);
    }
    MeshSession after(run, *model, to.tensor, to.zero);
    ReadSnapshot(snapshots::Snapshot(folder.PathOf(2)), *model, after.ranks(), after.session());
    EXPECT_EQ(after.session().Read<float>(kSeen), saved);
    RunStep(after, run, 2, /*skip=*/true);
    EXPECT_EQ(after.session().Read<float>(kSeen), saved);
    RunStep(after, run, 3);
    EXPECT_EQ(after.session().Read<float>(kSeen), LargestOf(run, world.size() / to.tensor, 3));
    world.Barrier();
  }
}

// A program alone is killed in the step after the one that it saved, and resumes from there.
TEST(CarriedMaximum, SurvivesAKill) {
  if (TestWorld().size() > 1) return;  // a rank's end would be that of its world
  const TinyRun run = RunOf(2, 1, false);
  const auto model = models::MakeModel(run.spec);
  const TempFolder own;
  const snapshots::Folder folder(own.path());
  const pid_t child = fork();
  if (child == 0) {
    MeshSession killed(run, *model, /*tensor=*/1, /*zero=*/0);
    killed.session().Initialize(*model, 1);
    for (const int step : {0, 1}) RunStep(killed, run, step);
    Save(killed, folder, 2);
    RunStep(killed, run, 2);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  folder.Recover();
  MeshSession after(run, *model, /*tensor=*/1, /*zero=*/0);
  ReadSnapshot(snapshots::Snapshot(folder.PathOf(2)), *model, after.ranks(), after.session());
  EXPECT_EQ(after.session().Read<float>(kSeen), LargestOf(run, 1, 1));
  RunStep(after, run, 2, /*skip=*/true);
  EXPECT_EQ(after.session().Read<float>(kSeen), LargestOf(run, 1, 1));
  RunStep(after, run, 2);
  EXPECT_EQ(after.session().Read<float>(kSeen), LargestOf(run, 1, 2));
}

}  // namespace
}  // namespace plimsoll::trainer
