// The table of passes and their contracts: every exchange of two passes is either refused, or gives
// a program that can be laid out in memory. Passes that keep numbers may be left out, each by its
// name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "base/axes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "memory/checker.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/step/pass_options.h"
#include "trainer/step/passes.h"

namespace plimsoll::trainer {
namespace {

using graph::Fact;
using graph::Pass;
using graph::Program;

// The forward program of a training step.
Program Forward(const models::Model& model, const CompileOptions& options) {
  Program program("train");
  graph::Builder builder(program);
  const models::Model::Outputs outputs =
      model.Build(builder, {options.micro_batch, options.sequence}, models::Head::kLoss, true, "");
  program.Rename(outputs.loss, "loss");
  program.mutable_tensor(outputs.loss).role = graph::Role::kMetric;
  program.mutable_tensor(outputs.loss).merge = graph::kSummed;
  program.mutable_tensor(outputs.loss).persistent = true;
  return program;
}

Making MakingOf(const models::Model& model, const CompileOptions& options, graph::Carry carry,
                bool update) {
  return {.options = options,
          .purpose = {.kind = ProgramKind::kTrain,
                      .objective = {.parameters = {"*"}},
                      .carry = carry,
                      .update = update,
                      .metrics = {"loss"}},
          .tensor = TensorParallelFrom(
              options,
              adapters::SplitParameters(model, options.lora, options.mesh.ranks(kTensorAxis)))};
}

// What came of all exchanges of two passes.
struct Exchanged {
  int refused = 0, allowed = 0;
};

// `before`: what holds before the passes.
Exchanged ExchangePasses(const Making& making, const std::set<Slice>& slices,
                         const graph::Facts& before, const Program& from) {
  Exchanged exchanged;
  const size_t count = PassesOf(making, slices).size();
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      std::vector<std::unique_ptr<Pass>> passes = PassesOf(making, slices);
      const std::string names =
          fmt::format("{} ({}) and {} ({})", passes[i]->name(), i, passes[j]->name(), j);
      std::swap(passes[i], passes[j]);
      graph::PassPipeline pipeline;
      for (std::unique_ptr<Pass>& pass : passes) pipeline.Add(std::move(pass));
      try {
        pipeline.Check(before);
      } catch (const InternalError&) {
        ++exchanged.refused;
        continue;
      }
      ++exchanged.allowed;
      try {
        Program program = from;
        pipeline.Run(program);
        const std::vector<const Program*> programs = {&program};
        memory::CheckPlan(programs, memory::MakePlan(programs, {}), {.ordered = {}});
      } catch (const std::exception& error) {
        ADD_FAILURE() << names << " may be exchanged, but: " << error.what();
      }
    }
  }
  return exchanged;
}

class PassOrder : public testing::Test {
 protected:
  static TinyRun Selective() {
    TinyRun run;
    run.checkpointing.policy = checkpointing::Options::Policy::kSelective;
    run.checkpointing.recompute = {{"norms", "activations"}, "", /*by_default=*/true};
    return run;
  }

  static Exchanged OfAStep(const TinyRun& run, const Mesh& mesh = {}) {
    const auto model = models::MakeModel(run.spec);
    CompileOptions options = OptionsOf(run, *model, runtime::DeviceKind::kCpu);
    options.mesh = mesh;
    const Making making = MakingOf(*model, options, graph::Carry::kNone, true);
    return ExchangePasses(making, {Slice::kDraft, Slice::kTags, Slice::kFinish}, {},
                          Forward(*model, options));
  }

  static void ExpectMostRefused(const Exchanged& exchanged) {
    EXPECT_GT(exchanged.refused, 2 * exchanged.allowed);
    EXPECT_GT(exchanged.allowed, 0);
  }
};

TEST_F(PassOrder, OfAStep) { ExpectMostRefused(OfAStep(Selective())); }

TEST_F(PassOrder, OfLowPrecision) {
  TinyRun run = Selective();
  run.amp.dtype = graph::DType::kBFloat16;
  run.amp.low_gradients = true;
  run.amp.fp8.enabled = true;
  run.amp.fp8.skip_ends = 0;
  ExpectMostRefused(OfAStep(run));
  run.zero = 3;
  ExpectMostRefused(OfAStep(run, Mesh({DataAxis(2)})));
}

TEST_F(PassOrder, OfAdapters) {
  TinyRun run = Selective();
  run.lora = {"c_attn", "c_proj"};
  run.stored_attention = true;
  ExpectMostRefused(OfAStep(run));
}

TEST_F(PassOrder, OfRanks) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero);
    TinyRun run = Selective();
    run.zero = zero;
    ExpectMostRefused(OfAStep(run, Mesh({DataAxis(2), TensorAxis(2)})));
  }
}

TEST_F(PassOrder, OfParametersOnTheHost) {
  TinyRun run = Selective();
  run.state_on_host = run.weights_on_host = run.gradients_on_host = run.update_in_backward = true;
  ExpectMostRefused(OfAStep(run));
  run.zero = 1;
  ExpectMostRefused(OfAStep(run, Mesh({DataAxis(2)})));
}

TEST_F(PassOrder, OfJoinedMicroSteps) {
  for (const bool hosted : {false, true}) {
    TinyRun run = Selective();
    run.spec = TinyLlama();
    run.zero = 3;
    run.accumulate = run.micro_steps_per_program = 2;
    run.blocks_first = run.update_in_backward = true;
    run.state_on_host = hosted;
    const auto model = models::MakeModel(run.spec);
    CompileOptions options = OptionsOf(run, *model, runtime::DeviceKind::kCpu);
    options.mesh = Mesh({DataAxis(2)});
    const std::set<Slice> apart = {Slice::kDraft, Slice::kTags, Slice::kFinish};
    Program first = Forward(*model, options), last = first;
    Passes(MakingOf(*model, options, graph::Carry::kWrite, false), apart).Run(first);
    Making making = MakingOf(*model, options, graph::Carry::kAccumulate, true);
    Passes(making, apart).Run(last);
    making.next = {&last};
    making.own = [](const graph::Tensor& tensor) { return tensor.role == graph::Role::kInput; };
    const Exchanged exchanged =
        ExchangePasses(making, {Slice::kJoin}, FactsBefore(making, Slice::kJoin), first);
    EXPECT_GE(exchanged.refused, 10);
  }
}

TEST(PassTable, NamesItsPasses) {
  std::set<std::string_view> known;
  for (const PassRow& row : PassTable()) {
    EXPECT_FALSE(row.slices.empty());
    known.insert(row.name);
  }
  TinyRun run;
  run.lora = {"c_attn"};
  run.update_in_backward = run.state_on_host = true;
  const auto model = models::MakeModel(run.spec);
  const CompileOptions options = OptionsOf(run, *model, runtime::DeviceKind::kCpu);
  for (const auto& pass : PassesOf(MakingOf(*model, options, graph::Carry::kNone, true),
                                   {Slice::kDraft, Slice::kTags, Slice::kFinish})) {
    EXPECT_TRUE(known.contains(pass->name())) << pass->name();
  }
}

TEST(PassTable, IsInTheDocs) {
  EXPECT_NE(ReadFile("docs/architecture.md").find(PassesText()), std::string::npos)
      << "docs/architecture.md should hold\n"
      << PassesText();
}

TEST(Without, ChangesNoNumber) {
  TinyRun run;
  run.checkpointing.policy = checkpointing::Options::Policy::kBlock;
  run.accumulate = run.micro_steps_per_program = 2;
  run.spec = TinyLlama();
  run.blocks_first = run.update_in_backward = run.state_on_host = true;
  const TinyResult with = Train(run);
  int left_out = 0;
  std::set<std::string_view> seen;
  for (const PassRow& row : PassTable()) {
    if (!seen.insert(row.name).second || !ContractOf(row).keeps_numbers) continue;
    SCOPED_TRACE(row.name);
    EXPECT_EQ(WhyNotWithout(row.name), "");
    run.without = {std::string(row.name)};
    ExpectSameNumbers(Train(run), with);
    ++left_out;
  }
  EXPECT_GT(left_out, 8);
}

TEST(Without, IsRefusedByName) {
  EXPECT_NE(WhyNotWithout("amp").find("programs need 'amp'"), std::string::npos);
  EXPECT_NE(WhyNotWithout("nothing").find("there is no pass 'nothing'"), std::string::npos);
  EXPECT_NE(WhyNotStopAfter("nothing").find("autodiff"), std::string::npos);
  EXPECT_EQ(WhyNotStopAfter("autodiff"), "");
}

TEST(StopAfter, WritesProgramsAndSaysThatTheyDoNotTrain) {
  const TempFolder temp;
  TinyRun run;
  run.accumulate = run.micro_steps_per_program = 2;
  const auto model = models::MakeModel(run.spec);
  CompileOptions options = OptionsOf(run, *model, runtime::DeviceKind::kCpu);
  options.dump_directory = temp / "programs";
  for (const std::string pass : {"autodiff", "temporary_gradients"}) {
    options.stop_after = pass;
    ExpectUserError([&] { Compile(*model, options); }, {"debug.stop_after", "after '" + pass + "'",
                                                        options.dump_directory, "do not train"});
  }
  EXPECT_NE(ReadFile(temp / "programs/train_first.02.autodiff.txt"), "");
  options.stop_after = "lora";
  ExpectUserError([&] { Compile(*model, options); }, {"no pass 'lora' runs"});
}

}  // namespace
}  // namespace plimsoll::trainer
