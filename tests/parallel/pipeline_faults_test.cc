// Stages of a pipeline that are disturbed: ranks that come late to every send and receive, an
// overflow on one of them, and a list of runs in which two slots are exchanged. Started under
// mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/error.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {
namespace {

// Sleeps before each call of another link, up to some milliseconds.
class LateLink : public runtime::StageLink {
 public:
  explicit LateLink(StageLink& link) : StageLink(link.stage(), RanksOf(link)), link_(link) {}

  int64_t transfers() const { return transfers_; }

 private:
  static std::vector<int64_t> RanksOf(const StageLink& link) {
    std::vector<int64_t> ranks(static_cast<size_t>(link.stages()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  void Sleep() {
    const auto most = random_() % 4 == 0 ? 3000u : 300u;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % most));
  }

  void DoStartSend(const Transfer& transfer, std::span<const std::byte> bytes) override {
    Sleep();
    ++transfers_;
    link_.StartSend(transfer.message, bytes);
  }
  void DoStartReceive(const Transfer& transfer, std::span<std::byte> bytes) override {
    Sleep();
    ++transfers_;
    link_.StartReceive(transfer.message, bytes);
  }
  void DoAwait(const Transfer& transfer) override {
    Sleep();
    const auto& [direction, slot, micro_batch] = transfer.message;
    if (transfer.way == Way::kSend) {
      link_.AwaitSend(direction, slot);
    } else {
      link_.AwaitReceive(direction, slot);
    }
  }

  StageLink& link_;
  std::mt19937 random_{static_cast<unsigned>(stage()) + 1};
  int64_t transfers_ = 0;
};

class PipelineFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
    mesh_.emplace(Mesh({PipelineAxis(stages())}));
  }

  static int64_t stages() { return TestWorld().size(); }
  runtime::StageLink& link() { return *mesh_->ranks().stage_link(); }

  // One block for each stage, and one more for the first.
  static TinyRun Alone(int64_t micro_batches) {
    TinyRun run;
    run.spec = models::Gpt2Spec(stages() + 1, 32, 4, 96, 16);
    run.spec.tied = false;
    run.spec.dropout = 0.1;
    run.micro_batch = 2;
    run.accumulate = micro_batches;
    run.ignored = 0.3;
    run.update.eps = 1e-5;
    run.steps = 3;
    run.threads = 1;
    return run;
  }
  TinyRun Staged(TinyRun run) const {
    mesh_->Use(run);
    run.stages.assign(static_cast<size_t>(stages()), 1);
    ++run.stages.front();
    return run;
  }

 private:
  std::optional<TestMesh> mesh_;
};

TEST_F(PipelineFaults, LateRanksChangeNoBits) {
  TinyRun alone = Alone(2 * stages() + 1);
  alone.evaluate = true;
  const std::string want = BitsOf(Train(alone));
  for (const char* synchronous : {"0", "1"}) {
    SCOPED_TRACE(synchronous);
    ASSERT_EQ(setenv("PLIMSOLL_SYNCHRONOUS_SENDS", synchronous, 1), 0);
    SetUp();  // a link that sends in this way
    LateLink late(link());
    TinyRun run = Staged(alone);
    run.link = &late;
    run.executor.check_arena = true;
    EXPECT_TRUE(BitsOf(Train(run)) == want);
    // Of each micro-batch and neighbour a send and a receive, and half of them in an evaluation.
    const int64_t neighbours = (link().stage() > 0) + (link().stage() + 1 < stages());
    EXPECT_EQ(late.transfers(), run.steps * neighbours * (2 * run.accumulate + 1));
  }
  ASSERT_EQ(unsetenv("PLIMSOLL_SYNCHRONOUS_SENDS"), 0);
}

// With a loss scale.
TinyRun Scaled(TinyRun run) {
  run.amp.dtype = graph::DType::kFloat16;
  run.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
  run.init_loss_scale = 1024;
  return run;
}

// Of the second step's last micro-batch, if this rank has the parameter. `written` counts.
void OverflowIn(TinyRun& run, const std::string& parameter, int& written) {
  run.before_run = [&, gradient = parameter + ".grad"](Session& session, int step,
                                                       const StepRun& what) {
    const bool backward =
        what.action == StepAction::kBackward || what.action == StepAction::kMicroStep;
    if (step != 1 || !backward || what.micro_step + 1 != run.accumulate) return;
    if (!session.Carries(gradient)) return;
    std::vector<float> values = session.Read<float>(gradient);
    values.back() = std::numeric_limits<float>::infinity();
    session.Write<float>(gradient, values);
    ++written;
  };
}

void ExpectSecondStepSkipped(const TinyResult& result) {
  EXPECT_TRUE(std::isfinite(result.grad_norms[0]));
  EXPECT_FALSE(std::isfinite(result.grad_norms[1]));
  EXPECT_TRUE(std::isfinite(result.grad_norms[2]));
  EXPECT_EQ(result.last.skipped, 1);
  EXPECT_EQ(result.last.loss_scale, 512);
}

TEST_F(PipelineFaults, AllStagesSkipTheStepThatOverflowsOnOne) {
  for (int64_t stage = 0; stage < stages(); ++stage) {
    const std::string parameter = fmt::format("block.{}.mlp.fc.weight", stage + 1);
    SCOPED_TRACE(parameter);
    TinyRun run = Scaled(Alone(3));
    int written = 0;
    OverflowIn(run, parameter, written);
    const TinyResult want = Train(run);
    EXPECT_EQ(std::exchange(written, 0), 1);
    const TinyResult got = Train(Staged(run));
    EXPECT_EQ(written, link().stage() == stage);
    EXPECT_TRUE(BitsOf(got) == BitsOf(want));
    ExpectSecondStepSkipped(want);
    ExpectSecondStepSkipped(got);
  }
}

TEST_F(PipelineFaults, AllRanksSkipTheStepThatOverflowsOnOne) {
  if (TestWorld().size() != 4) GTEST_SKIP() << "a mesh of two by two";
  for (const bool tensor : {false, true}) {
    const TestMesh mesh(
        Mesh({PipelineAxis(2), DataAxis(tensor ? 1 : 2), TensorAxis(tensor ? 2 : 1)}));
    for (int rank = 0; rank < 4; ++rank) {
      SCOPED_TRACE(fmt::format("{} {}", tensor ? "tensor rank" : "data rank", rank));
      TinyRun run = Scaled(Alone(2));
      mesh.Use(run);
      run.stages = {2, 3};
      run.zero = tensor ? 0 : rank % 2;
      int written = 0;
      if (TestWorld().rank() == rank) {
        OverflowIn(run, rank < 2 ? "block.0.mlp.fc.weight" : "block.4.mlp.fc.weight", written);
      }
      const TinyResult got = Train(run);
      EXPECT_EQ(written, TestWorld().rank() == rank);
      ExpectSecondStepSkipped(got);
      ExpectAlikeOnAllRanks(got);
    }
  }
}

// The runs of a compiled stage, as the prover reads them.
StageList RunsOf(const CompiledStep& compiled) {
  StageList list;
  for (const StepEntry& entry : compiled.step.entries) {
    list.push_back({entry.action, entry.micro_step, entry.slot, entry.receives, entry.sends});
  }
  return list;
}

bool IsProved(const CompiledStep& compiled, int64_t micro_batches) {
  const int64_t stages = compiled.options.mesh.size();
  std::vector<StageList> lists;
  for (int64_t stage = 0; stage < stages; ++stage) {
    lists.push_back(stage == compiled.options.rank
                        ? RunsOf(compiled)
                        : OneForwardOneBackward(stages, stage, micro_batches));
  }
  try {
    ProveSchedule(lists, micro_batches);
  } catch (const InternalError&) {
    return false;
  }
  return true;
}

// The backward passes of two micro-batches have each other's slots. Their messages pass as before.
void ExchangeSlots(CompiledStep& compiled) {
  if (compiled.options.rank != 0) return;
  const int64_t micro_batches = compiled.options.accumulate;
  EXPECT_TRUE(IsProved(compiled, micro_batches));
  std::vector<StepEntry*> backward;
  for (StepEntry& entry : compiled.step.entries) {
    if (entry.action == StepAction::kBackward) backward.push_back(&entry);
  }
  // Neither is the first one, which writes gradients, nor the last.
  StepEntry& one = *backward.at(1);
  StepEntry& other = *backward.at(2);
  EXPECT_NE(one.slot, other.slot);
  std::swap(one.slot, other.slot);
  std::swap(one.program, other.program);
  EXPECT_FALSE(IsProved(compiled, micro_batches));
}

TEST_F(PipelineFaults, ExchangedSlotsGiveOtherBits) {
  TinyRun run = Alone(stages() + 2);
  run.steps = 2;
  const TinyResult want = Train(run);
  run = Staged(run);
  EXPECT_TRUE(BitsOf(Train(run)) == BitsOf(want));
  run.change = &ExchangeSlots;
  const TinyResult got = Train(run);
  EXPECT_EQ(got.losses.front(), want.losses.front());
  EXPECT_NE(got.grad_norms, want.grad_norms);
  EXPECT_NE(got.weights, want.weights);
}

}  // namespace
}  // namespace plimsoll::trainer
