// A pipeline in one process: the programs of all stages and slots, run in the order of 1F1B, give
// the bits of one rank that accumulates as many micro-steps, up to the update.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "graph/autodiff.h"
#include "graph/micro_steps.h"
#include "graph/phase_cut.h"
#include "models/model.h"
#include "optim/update.h"
#include "parallel/cut_stage.h"
#include "tests/graph/expect_program.h"
#include "tests/models/published.h"
#include "tests/ops/interpreter.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {
namespace {

using graph::Carry;
using graph::OfMicroStep;
using graph::Program;
using graph::Tensor;

// What is carried, by name.
using Values = std::map<std::string, std::vector<double>>;

bool IsData(const Tensor& tensor) {
  return tensor.role == graph::Role::kInput && tensor.name != "token_weight";
}
bool IsOfSlot(const Tensor& tensor) { return IsData(tensor) || tensor.name.starts_with("stage."); }

std::vector<double> Drawn(const Tensor& tensor, int64_t vocab, int64_t micro_batch) {
  std::mt19937 random(
      static_cast<unsigned>(std::hash<std::string>()(tensor.name) + 977 * micro_batch));
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
    values.push_back(tensor.type.dtype == graph::DType::kInt32
                         ? static_cast<double>(random() % static_cast<uint64_t>(vocab))
                         : static_cast<float>(std::normal_distribution<double>(0, 0.1)(random)));
  }
  return values;
}

// Parameters that have the numbers of another one.
using Copies = std::map<std::string, std::string_view>;

// What each micro-batch reads, and what all read.
void Give(const Program& program, int64_t vocab, int64_t micro_batch, int64_t slot, Values& values,
          const Copies& copies = {}) {
  for (const Tensor& tensor : program.tensors()) {
    if (IsData(tensor)) {
      values[OfMicroStep(slot, tensor.name)] = Drawn(tensor, vocab, micro_batch);
    } else if (tensor.role == graph::Role::kParameter || tensor.name == "token_weight") {
      const auto copy = copies.find(tensor.name);
      Tensor drawn = tensor;
      if (copy != copies.end()) drawn.name = copy->second;
      values.try_emplace(tensor.name, Drawn(drawn, vocab, 0));
    }
  }
}

// Memory that nothing has written is NaN.
void RunOn(const Program& program, Values& values) {
  ThreadPool pool(1);
  ops::Interpreter interpreter(program, pool);
  const auto is_carried = [](const Tensor& tensor) { return tensor.persistent && !tensor.alias; };
  for (const Tensor& tensor : program.tensors()) {
    const auto found = values.find(tensor.name);
    if (is_carried(tensor) && found != values.end()) interpreter.Set(tensor.name, found->second);
  }
  interpreter.Run();
  for (const Tensor& tensor : program.tensors()) {
    if (is_carried(tensor)) values[tensor.name] = interpreter.Get(tensor.name);
  }
}

struct Case {
  models::ModelSpec spec;
  bool recompute = false;  // blocks, on every other stage
};

Program WholeOf(const models::ModelSpec& spec, bool first) {
  Program program("train");
  graph::Builder builder(program);
  program.Rename(models::MakeModel(spec)->Build(builder, {2, 8}, models::Head::kLoss, true).loss,
                 "loss");
  program.mutable_tensor(program.Require("loss")).merge = graph::kSummed;
  program.mutable_tensor(program.Require("loss")).persistent = true;
  graph::Autodiff({.carry = first ? Carry::kWrite : Carry::kAccumulate}).Run(program);
  return program;
}

Program StageOf(Program program, const std::vector<int64_t>& blocks, int64_t stage,
                bool recompute) {
  parallel::CutStage({blocks, stage}).Run(program);
  if (recompute) {
    checkpointing::Options options;
    options.policy = checkpointing::Options::Policy::kBlock;
    checkpointing::TagActivations(options).Run(program);
    checkpointing::Recompute().Run(program);
  }
  graph::Verify(program);
  return program;
}

// Stages as they run micro-batches: one `Values` is a rank's memory.
class Pipeline {
 public:
  Pipeline(const Case& of, std::vector<int64_t> blocks) : case_(of), memories_(blocks.size()) {
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      for (const bool first : {true, false}) {
        programs_[{stage, first}] =
            StageOf(WholeOf(of.spec, first), blocks, static_cast<int64_t>(stage),
                    of.recompute && stage % 2 == 0);
      }
    }
  }

  // A list that waits continues when another has sent what it awaits.
  void Run(const std::vector<StageList>& lists) {
    std::vector<size_t> next(lists.size(), 0);
    for (bool any = true; any;) {
      any = false;
      for (size_t stage = 0; stage < lists.size(); ++stage) {
        while (next[stage] < lists[stage].size() && Runs(stage, lists[stage][next[stage]])) {
          ++next[stage];
          any = true;
        }
      }
    }
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      EXPECT_EQ(next[stage], lists[stage].size());
    }
  }

  const Values& memory(size_t stage) const { return memories_[stage]; }

  // The gradients and the loss of all stages.
  Values Results() const {
    Values results;
    for (const auto& [at, program] : programs_) {
      for (const Tensor& tensor : program.tensors()) {
        if (tensor.role != graph::Role::kGradient && tensor.role != graph::Role::kMetric) continue;
        if (!tensor.persistent) continue;
        results[tensor.name] = memories_[at.first].at(tensor.name);
      }
    }
    return results;
  }

 private:
  bool Runs(size_t stage, const StageRun& run) {
    if (run.action == StepAction::kUpdate) return true;
    Values& memory = memories_[stage];
    if (!run.receives.empty()) {
      const bool down = run.receives == parallel::kStageIn;
      const size_t from = down ? stage - 1 : stage + 1;
      auto& messages =
          sent_[{from, std::string(down ? parallel::kStageOut : parallel::kStageInGrad)}];
      if (messages.empty()) return false;
      memory[OfMicroStep(run.slot, run.receives)] = std::move(messages.front());
      messages.erase(messages.begin());
    }
    const bool last = stage + 1 == memories_.size();
    const Program& whole = programs_.at({stage, run.micro_batch == 0});
    const graph::PhasePrograms phases =
        graph::CutPhases(whole, {.slot = run.slot, .own = &IsOfSlot, .forward_apart = !last});
    if (BeginsMicroSteps(run.action)) {
      Give(whole, case_.spec.vocab, run.micro_batch, run.slot, memory);
    }
    const bool forward = run.action == StepAction::kForward;
    graph::Verify(forward ? phases.forward : phases.backward);
    RunOn(forward ? phases.forward : phases.backward, memory);
    // Nobody reads what the micro-batch has kept from here on.
    if (run.action == StepAction::kBackward) {
      for (const std::string& name : phases.kept) {
        std::ranges::fill(memory.at(name), std::numeric_limits<double>::quiet_NaN());
      }
    }
    if (!run.sends.empty()) {
      sent_[{stage, std::string(run.sends)}].push_back(memory.at(OfMicroStep(run.slot, run.sends)));
    }
    return true;
  }

  const Case& case_;
  std::map<std::pair<size_t, bool>, Program> programs_;  // by stage, and whether the first
  std::vector<Values> memories_;                         // by stage
  std::map<std::pair<size_t, std::string>, std::vector<std::vector<double>>> sent_;
};

Values OnOneRank(const Case& of, int64_t micro_batches, const Copies& copies = {}) {
  Values values, results;
  for (int64_t i = 0; i < micro_batches; ++i) {
    const Program program = WholeOf(of.spec, i == 0);
    Give(program, of.spec.vocab, i, 0, values, copies);
    RunOn(program, values);
    for (const Tensor& tensor : program.tensors()) {
      if (tensor.role != graph::Role::kGradient && tensor.role != graph::Role::kMetric) continue;
      if (tensor.persistent) results[tensor.name] = values.at(tensor.name);
    }
  }
  return results;
}

std::vector<Case> Cases() {
  models::ModelSpec gpt2 = models::Gpt2Spec(5, 16, 2, 40, 8);
  gpt2.tied = false;
  gpt2.dropout = 0.1;
  return {
      {gpt2, false}, {gpt2, true}, {models::LlamaSpec({5, 16, 2, 1, 8, 24, 40, 8, false}), true}};
}

const std::vector<std::vector<int64_t>> kStages = {
    {2, 3}, {1, 3, 1}, {1, 1, 2, 1}, {1, 1, 1, 1, 1}};

std::vector<StageList> ListsOf(size_t stages, int64_t micro_batches) {
  std::vector<StageList> lists;
  const auto count = static_cast<int64_t>(stages);
  for (int64_t stage = 0; stage < count; ++stage) {
    lists.push_back(OneForwardOneBackward(count, stage, micro_batches));
  }
  return lists;
}

TEST(PipelinePrograms, HaveTheBitsOfOneRank) {
  for (const Case& of : Cases()) {
    for (const int64_t micro_batches : {1, 3, 4, 7}) {
      const Values want = OnOneRank(of, micro_batches);
      for (const std::vector<int64_t>& blocks : kStages) {
        SCOPED_TRACE(testing::Message()
                     << of.spec.family << (of.recompute ? ", recomputed, " : ", ") << blocks.size()
                     << " stages, " << micro_batches << " micro-batches");
        Pipeline pipeline(of, blocks);
        pipeline.Run(ListsOf(blocks.size(), micro_batches));
        EXPECT_EQ(pipeline.Results(), want);
      }
    }
  }
}

// The part that each end has of a tied table's gradient is what one rank has of that of two tables
// with equal numbers.
TEST(PipelinePrograms, HavePartsOfATablesGradient) {
  Case tied = Cases().front(), untied = tied;
  tied.spec.tied = true;
  constexpr std::string_view kTable = "embed.token.weight", kHead = "head.weight";
  for (const int64_t micro_batches : {1, 4}) {
    const Values want = OnOneRank(untied, micro_batches, {{std::string(kHead), kTable}});
    for (const std::vector<int64_t>& blocks : kStages) {
      SCOPED_TRACE(testing::Message()
                   << blocks.size() << " stages, " << micro_batches << " micro-batches");
      Pipeline pipeline(tied, blocks);
      pipeline.Run(ListsOf(blocks.size(), micro_batches));
      const std::string gradient = std::string(kTable) + ".grad";
      Values got = pipeline.Results();
      got.erase(gradient);
      for (const auto& [name, values] : got) EXPECT_EQ(values, want.at(name)) << name;
      EXPECT_EQ(got.size() + 2, want.size());
      EXPECT_EQ(pipeline.memory(0).at(gradient), want.at(gradient));
      EXPECT_EQ(pipeline.memory(blocks.size() - 1).at(gradient),
                want.at(std::string(kHead) + ".grad"));
    }
  }
}

// The prover would refuse it: here two micro-batches have each other's slots in their backward
// passes.
TEST(PipelinePrograms, HaveOtherBitsWithSlotsExchanged) {
  const Case of = Cases().front();
  const Values want = OnOneRank(of, 4);
  std::vector<StageList> lists = ListsOf(2, 4);
  std::vector<StageRun*> backward;
  for (StageRun& run : lists[0]) {
    if (run.action == StepAction::kBackward) backward.push_back(&run);
  }
  std::swap(backward[0]->slot, backward[1]->slot);
  EXPECT_ANY_THROW(ProveSchedule(lists, 4));
  Pipeline pipeline(of, {2, 3});
  pipeline.Run(lists);
  EXPECT_NE(pipeline.Results(), want);
}

// Here the second stage has each other's targets for two micro-batches.
TEST(PipelinePrograms, HaveOtherBitsWithMicroBatchesExchanged) {
  const Case of = Cases().front();
  const Values want = OnOneRank(of, 4);
  std::vector<StageList> lists = ListsOf(2, 4);
  ASSERT_EQ(lists[1][1].action, StepAction::kMicroStep);
  std::swap(lists[1][1].micro_batch, lists[1][2].micro_batch);
  EXPECT_ANY_THROW(ProveSchedule(lists, 4));
  Pipeline pipeline(of, {2, 3});
  pipeline.Run(lists);
  EXPECT_NE(pipeline.Results(), want);
}

}  // namespace
}  // namespace plimsoll::trainer
