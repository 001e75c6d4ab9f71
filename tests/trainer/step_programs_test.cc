// A step as data: the programs that micro-steps run.
#include "trainer/step/step_programs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {
namespace {

// The program of each run, with a star after one that updates.
std::vector<std::string> RunsOf(int64_t accumulate, int64_t micro_steps_per_program = 1) {
  CompileOptions options;
  options.sequence = 8;
  options.accumulate = accumulate;
  options.micro_steps_per_program = micro_steps_per_program;
  options.evaluate = true;
  const CompiledStep compiled = Compile(*models::MakeModel(TinyGpt2()), options);
  std::vector<std::string> runs;
  for (int64_t run = 0; run < compiled.step.runs(); ++run) {
    const StepRun what = compiled.step.At(run);
    EXPECT_EQ(what.micro_steps, micro_steps_per_program);
    for (const int64_t first : {what.micro_step, what.draw, what.number}) {
      EXPECT_EQ(first, run * micro_steps_per_program);
    }
    EXPECT_TRUE(compiled.step.Runs(what.program));
    runs.push_back(compiled.programs[what.program]->name() + (what.ends ? "*" : ""));
  }
  EXPECT_EQ(compiled.step.draws, accumulate);
  EXPECT_EQ(compiled.step.micro_steps(), accumulate);
  EXPECT_FALSE(compiled.step.Runs(compiled.step.evaluations.at(0)));
  EXPECT_THROW(compiled.step.At(compiled.step.runs()), InternalError);
  EXPECT_THROW(compiled.step.At(-1), InternalError);
  return runs;
}

TEST(StepPrograms, HaveOneProgramForEachMicroStep) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(RunsOf(1), (Names{"train*"}));
  EXPECT_EQ(RunsOf(2), (Names{"train_first", "train_last*"}));
  EXPECT_EQ(RunsOf(3), (Names{"train_first", "train_middle", "train_last*"}));
  EXPECT_EQ(RunsOf(5),
            (Names{"train_first", "train_middle", "train_middle", "train_middle", "train_last*"}));
}

TEST(StepPrograms, HoldSeveralMicroSteps) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(RunsOf(2, 2), (Names{"train*"}));
  EXPECT_EQ(RunsOf(4, 4), (Names{"train*"}));
  EXPECT_EQ(RunsOf(4, 2), (Names{"train_begin", "train_end*"}));
  EXPECT_EQ(RunsOf(8, 2), (Names{"train_begin", "train_between", "train_between", "train_end*"}));
  EXPECT_THROW(RunsOf(4, 3), InternalError);
}

// The phases of a micro-step that a pipeline's stage runs apart are one micro-step, whose number
// they have.
TEST(StepPrograms, CountMicroStepsThatBegin) {
  StepPrograms step;
  for (int64_t stage : {0, 2}) {
    step.entries.clear();
    const StageList list = OneForwardOneBackward(3, stage, 4);
    for (const StageRun& run : list) {
      step.entries.push_back({.micro_step = run.micro_batch,
                              .ends = run.action == StepAction::kUpdate,
                              .draw = run.micro_batch,
                              .action = run.action,
                              .slot = run.slot,
                              .receives = run.receives,
                              .sends = run.sends});
    }
    EXPECT_EQ(step.micro_steps(), 4);
    EXPECT_EQ(step.runs(), std::ssize(list));
    for (int64_t number = 0; number < step.runs(); ++number) {
      const StepRun run = step.At(number);
      const StageRun& want = list[static_cast<size_t>(number)];
      EXPECT_EQ((StageRun{run.action, run.number, run.slot, run.receives, run.sends}), want);
      EXPECT_EQ(run.draw, want.micro_batch);
    }
  }
}

// Three times those of a forward pass, without recomputation.
TEST(ModelFlops, AreThoseOfTheMathematics) {
  using Policy = checkpointing::Options::Policy;
  for (const models::ModelSpec& spec : {TinyGpt2(), TinyLlama()}) {
    for (const Policy policy : {Policy::kNone, Policy::kBlock}) {
      for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
        CompileOptions options;
        options.micro_batch = 2;
        options.sequence = 16;
        options.accumulate = 3;
        options.evaluate = true;
        options.checkpointing.policy = policy;
        options.amp.dtype = dtype;
        const CompiledStep compiled = Compile(*models::MakeModel(spec), options);
        options.micro_steps_per_program = 3;
        const CompiledStep together = Compile(*models::MakeModel(spec), options);
        EXPECT_EQ(together.model_flops, compiled.model_flops);
        EXPECT_EQ(together.flops_per_step, compiled.flops_per_step);
        const graph::Program& forward = *compiled.programs[compiled.step.evaluations.at(0)];
        double products = 0;
        for (const graph::Node& node : forward.nodes()) {
          products += graph::CostOf(forward.CallOf(node).get()).products;
        }
        EXPECT_DOUBLE_EQ(compiled.model_flops, 3 * 3 * products);
        EXPECT_DOUBLE_EQ(ModelFlopsPerToken(compiled), 3 * products / (2 * 16));
        EXPECT_EQ(RecomputeFlops(compiled) > 0, policy == Policy::kBlock);
      }
    }
  }
}

TEST(StepPrograms, AreNoneWithoutTraining) {
  CompileOptions options;
  options.sequence = 8;
  options.train = false;
  options.evaluate = true;
  const CompiledStep compiled = Compile(*models::MakeModel(TinyGpt2()), options);
  EXPECT_EQ(compiled.step.runs(), 0);
  EXPECT_TRUE(StepProgramsOf(compiled).empty());
}

}  // namespace
}  // namespace plimsoll::trainer
