// Where parameters live, when they are updated, and in which order micro-steps run, left to the
// budget: a larger budget is never slower, no budget changes a bit, plans are exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll::trainer {
namespace {

using testing::HasSubstr;

// Most weights are large enough to leave the device.
constexpr const char* kLlama =
    "model: {family: llama, layers: 4, width: 192, heads: 4, kv_heads: 2, ffn_width: 512, "
    "vocab: 512, sequence: 16}\n";
constexpr const char* kTied =
    "model: {family: gpt2, layers: 4, width: 192, heads: 4, vocab: 512, sequence: 16, "
    "dropout: 0.1}\n";

config::Loaded Load(const std::string& model, const std::vector<std::string>& sets = {}) {
  return LoadRunText(model +
                         "data: {synthetic: true}\n"
                         "train: {micro_batch: 2, accumulate: 2, eval_every: 0, threads: 2, "
                         "blocks_first: auto}\n"
                         "optimizer: {place: auto, in_backward: auto, clip_grad_norm: 0}\n"
                         "checkpointing: {policy: auto}\n"
                         "memory: {weights: auto, gradients: auto, calibrate: false, "
                         "budget: 1GiB}\n"
                         "debug: {verify_drafts: true, host_apart: true}\n",
                     "run.yaml", sets);
}

struct Trained {
  std::vector<double> losses, grad_norms;
  std::vector<std::vector<float>> weights;
  int64_t used_bytes = 0;

  bool operator==(const Trained&) const = default;
};

// Two steps with random tokens; the same ones however the step is compiled.
Trained TrainTwoSteps(const models::Model& model, const CompileOptions& options) {
  ThreadPool pool(options.threads);
  Session session(Compile(model, options), pool, {.check_arena = true});
  session.Initialize(model, 1);
  Trained trained;
  std::mt19937 random(1);
  const int64_t tokens = options.micro_batch * options.sequence;
  for (int step = 0; step < 2; ++step) {
    session.BeginStep(tokens * options.accumulate, 1e-3, 7);
    for (int64_t micro = 0; micro < options.accumulate; ++micro) {
      const int64_t in_program = micro % options.micro_steps_per_program;
      const BatchSlots& batch = session.batch(in_program);
      for (int64_t i = 0; i < tokens; ++i) {
        batch.tokens[i] = static_cast<int32_t>(random() % 512);
        batch.targets[i] = static_cast<int32_t>(random() % 512);
      }
      if (in_program + 1 < options.micro_steps_per_program) continue;
      session.Run(step, micro / options.micro_steps_per_program);
    }
    trained.losses.push_back(session.Metrics().loss);
    trained.grad_norms.push_back(session.Metrics().grad_norm);
  }
  for (const models::ParameterInfo& parameter : model.parameters()) {
    trained.weights.push_back(session.ReadParameter(parameter.name));
  }
  trained.used_bytes = session.used_bytes();
  return trained;
}

// The fastest plans of budgets from the smallest plan to the fastest one, without repetition.
// Expects that none is slower than that of a smaller budget.
std::vector<const memory::Candidate*> Sweep(StepSolver& solver) {
  const int64_t least = solver.solver().Smallest().exact->needed_bytes;
  const int64_t most = solver.solver().Fastest({})->exact->needed_bytes;
  EXPECT_LT(least, most);
  EXPECT_EQ(solver.solver().Fastest({.device = least - 1}), nullptr);
  std::vector<const memory::Candidate*> chosen;
  constexpr int kBudgets = 32;
  double slower = 1e9;
  for (int i = 0; i <= kBudgets; ++i) {
    const int64_t budget = least + (most - least) * i / kBudgets;
    const memory::Candidate* plan = solver.solver().Fastest({.device = budget});
    if (plan == nullptr) {
      ADD_FAILURE() << "nothing fits in " << budget;
      continue;
    }
    EXPECT_LE(plan->exact->arena_bytes, budget);
    EXPECT_LE(plan->exact->seconds, slower * (1 + 1e-9)) << budget;
    slower = plan->exact->seconds;
    if (chosen.empty() || chosen.back() != plan) chosen.push_back(plan);
  }
  return chosen;
}

void ExpectPlanned(StepSolver& solver, const memory::Candidate& candidate) {
  SCOPED_TRACE(solver.Describe(candidate));
  const CompiledStep compiled = Compile(solver.model(), solver.OptionsOf(candidate));
  EXPECT_EQ(compiled.plan.arena_bytes, candidate.exact->arena_bytes);
  EXPECT_EQ(compiled.plan.host_arena_bytes, candidate.exact->host_arena_bytes);
  EXPECT_NEAR(PredictSeconds(compiled, solver.cost()), candidate.exact->seconds,
              1e-9 * candidate.exact->seconds);
}

std::set<std::string> UsedKeys(StepSolver& solver,
                               const std::vector<const memory::Candidate*>& chosen) {
  std::set<std::string> used;
  for (const memory::Candidate* candidate : chosen) {
    for (const Knob& knob : Techniques()) {
      if (knob.IsUsed(solver.ConfigOf(candidate->variant))) used.insert(knob.key);
    }
  }
  return used;
}

class OpenChoices : public testing::TestWithParam<const char*> {};

TEST_P(OpenChoices, AreNeverSlowerInMoreMemoryAndKeepTheBits) {
  StepSolver solver(Load(GetParam()).config);
  const std::vector<const memory::Candidate*> chosen = Sweep(solver);
  const Trained expected =
      TrainTwoSteps(solver.model(), solver.OptionsOf(*solver.solver().Fastest({})));
  std::set<size_t> variants;
  for (const memory::Candidate* candidate : chosen) {
    if (!variants.insert(candidate->variant).second) continue;
    ExpectPlanned(solver, *candidate);
    const Trained trained = TrainTwoSteps(solver.model(), solver.OptionsOf(*candidate));
    SCOPED_TRACE(solver.Describe(*candidate));
    EXPECT_EQ(trained.losses, expected.losses);
    EXPECT_EQ(trained.grad_norms, expected.grad_norms);
    EXPECT_EQ(trained.weights, expected.weights);
    EXPECT_EQ(trained.used_bytes, candidate->exact->arena_bytes);
  }
  EXPECT_GE(variants.size(), 4u);
  bool some_blocks = false;
  for (const memory::Candidate* candidate : chosen) {
    const auto& blocks = solver.ConfigOf(candidate->variant).memory.host_blocks;
    if (!blocks) continue;
    some_blocks = true;
    const memory::Budget budget = {.device = candidate->exact->needed_bytes};
    EXPECT_THAT(ChoiceReasons(solver, *candidate, budget, /*used_only=*/true),
                testing::Contains(testing::AnyOf(
                    testing::StartsWith("memory.host_blocks: " + std::to_string(*blocks) +
                                        ", because with all the fastest plan that fits takes "),
                    "memory.host_blocks: " + std::to_string(*blocks) + ", which is as fast")));
  }
  EXPECT_TRUE(some_blocks);
  EXPECT_THAT(UsedKeys(solver, chosen), testing::IsSupersetOf({"optimizer.place", "memory.weights",
                                                               "optimizer.in_backward"}));
}

// There copies run beside the computation, and no time is a sum over blocks.
TEST_P(OpenChoices, AreNeverSlowerInMoreMemoryOfAGpu) {
  for (const char* accumulate : {"1", "2"}) {
    SCOPED_TRACE(accumulate);
    config::RunConfig config = Load(GetParam(), {"device=cuda", "amp.dtype=bf16",
                                                 std::string("train.accumulate=") + accumulate})
                                   .config;
    config.planned_gpu = "h200";
    StepSolver solver(config);
    const std::vector<const memory::Candidate*> chosen = Sweep(solver);
    for (const memory::Candidate* candidate : chosen) ExpectPlanned(solver, *candidate);
    EXPECT_THAT(UsedKeys(solver, chosen), testing::Contains("optimizer.place"));
  }
}

// Copies that end and start by the built-in rates of the GPU, and nothing else that travels.
TEST(OffloadOnAGpu, IsPlannedAsItIsCompiled) {
  config::RunConfig config =
      Load(
          "model: {family: llama, layers: 12, width: 512, heads: 4, ffn_width: 1536, vocab: 512, "
          "sequence: 512}\n",
          {"device=cuda", "amp.dtype=bf16", "train.micro_batch=16", "train.blocks_first=false",
           "optimizer.place=device", "optimizer.in_backward=false", "memory.weights=device",
           "memory.gradients=device", "checkpointing.offload=[\"*\"]"})
          .config;
  config.planned_gpu = "h200";
  StepSolver solver(config);
  int offloading = 0;
  for (const memory::Candidate* candidate : Sweep(solver)) {
    ExpectPlanned(solver, *candidate);
    offloading += std::ranges::count(candidate->fates, graph::Retention::kOffload) > 0;
  }
  EXPECT_GE(offloading, 5);
}

// Every variant, and not only those that a budget asks for, is what it says.
TEST_P(OpenChoices, ArePlannedAsTheyAreCompiled) {
  StepSolver solver(Load(GetParam()).config);
  const size_t variants = solver.solver().variants();
  EXPECT_GE(variants, 8u);
  for (size_t variant = 0; variant < variants; ++variant) {
    for (const char* policy : {"none", "block"}) {
      const memory::Candidate* candidate = solver.solver().Policy(variant, policy);
      ASSERT_NE(candidate, nullptr);
      ExpectPlanned(solver, *candidate);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OpenChoices, testing::Values(kLlama, kTied),
                         [](const auto& info) { return info.index == 0 ? "Llama" : "TiedGpt2"; });

const Knob& KnobNamed(const std::string& key) {
  return *std::ranges::find(Techniques(), key, &Knob::key);
}

bool AnyVariantUses(StepSolver& solver, const Knob& key) {
  for (size_t variant = 0; variant < solver.solver().variants(); ++variant) {
    if (key.IsUsed(solver.ConfigOf(variant))) return true;
  }
  return false;
}

TEST(HostBudget, BoundsWhatLeavesTheDevice) {
  StepSolver solver(Load(kLlama).config);
  const int64_t least = solver.solver().Smallest().exact->needed_bytes;
  const int64_t host = solver.solver().Smallest().exact->host_arena_bytes;
  ASSERT_GT(host, 0);
  EXPECT_EQ(solver.solver().Fastest({.device = least, .host = host - 1}), nullptr);
  const memory::Candidate& here = solver.solver().Smallest({.host = 0});
  EXPECT_EQ(here.exact->host_arena_bytes, 0);
  EXPECT_THAT(UsedKeys(solver, {&here}), testing::Not(testing::Contains("optimizer.place")));
  double slower = 1e9;
  for (int i = 0; i <= 8; ++i) {
    const memory::Candidate* plan =
        solver.solver().Fastest({.device = here.exact->needed_bytes, .host = host * i / 8});
    ASSERT_NE(plan, nullptr);
    EXPECT_LE(plan->exact->host_arena_bytes, host * i / 8);
    EXPECT_LE(plan->exact->seconds, slower * (1 + 1e-9));
    slower = plan->exact->seconds;
  }
}

// A file may also fix some of the choices, and even ask for an order that tied weights forbid.
TEST_P(OpenChoices, GoWithThoseThatTheFileMakes) {
  for (const char* set : {"train.blocks_first=true", "memory.gradients=host",
                          "optimizer.in_backward=true", "memory.weights=host"}) {
    SCOPED_TRACE(set);
    StepSolver solver(Load(GetParam(), {set, "optimizer.place=device"}).config);
    const std::vector<const memory::Candidate*> chosen = Sweep(solver);
    for (const memory::Candidate* candidate : {chosen.front(), chosen.back()}) {
      ExpectPlanned(solver, *candidate);
    }
  }
}

TEST(LeftOut, AreTechniquesThatTheRunForbidsAndTheReasonIsSaid) {
  struct Case {
    const char *model, *set, *key, *reason;
  };
  for (const Case& c :
       {Case{kTied, "train.seed=1", "train.blocks_first", "in several places"},
        Case{kLlama, "train.accumulate=1", "train.blocks_first", "one micro-step"},
        Case{kLlama, "train.accumulate=4000", "train.blocks_first", "too long to plan"},
        Case{kLlama, "train.accumulate=1", "memory.gradients", "temporaries"},
        Case{kLlama, "optimizer.clip_grad_norm=1", "optimizer.in_backward", "clip_grad_norm"},
        Case{kLlama, "divergence.action=skip", "optimizer.in_backward", "divergence.action"}}) {
    SCOPED_TRACE(std::string(c.set) + " " + c.key);
    const config::Loaded loaded = Load(c.model, {c.set});
    EXPECT_TRUE(loaded.warnings.empty());
    StepSolver solver(loaded.config, {.coarse = true});
    const Knob& key = KnobNamed(c.key);
    EXPECT_FALSE(AnyVariantUses(solver, key));
    EXPECT_THAT(solver.WhyLeftOut(key), HasSubstr(c.reason));
  }
}

TEST(Reasons, SayWhatTheOtherChoiceWouldTake) {
  StepSolver solver(Load(kLlama).config);
  const auto of = [&](int64_t device) {
    const memory::Budget budget = {.device = device};
    const memory::Candidate* chosen = solver.solver().Fastest(budget);
    return ChoiceReasons(solver, *chosen, budget, /*used_only=*/false);
  };
  const int64_t least = solver.solver().Smallest().exact->needed_bytes;
  EXPECT_THAT(of(least), testing::Contains(
                             testing::StartsWith("optimizer.place: host, because with device ")));
  for (const std::string& reason : of(memory::Budget::kNone)) {
    EXPECT_THAT(reason, HasSubstr("since no plan that fits is faster with "));
  }
}

std::string MessageOf(const std::vector<std::string>& sets) {
  try {
    const config::RunConfig config = Load(kLlama, sets).config;
    ResolveRun(config, *ModelFrom(config));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(OpenChoicesOf, BadInputAreRefused) {
  const std::vector<std::string> closed = {"memory.budget=null",      "checkpointing.policy=none",
                                           "optimizer.place=device",  "memory.weights=device",
                                           "memory.gradients=device", "train.blocks_first=false"};
  EXPECT_THAT(MessageOf(closed), HasSubstr("run.yaml:4: optimizer.in_backward: auto chooses"));
  EXPECT_THAT(MessageOf({"optimizer.in_backward=maybe"}),
              HasSubstr("expected auto, true or false, got"));
  EXPECT_THAT(MessageOf({"train.blocks_first=true", "train.micro_batch=auto",
                         "train.accumulate=null", "train.global_batch=4"}),
              HasSubstr("not possible with train.micro_batch: auto"));
  EXPECT_THAT(MessageOf({"memory.host_blocks=5", "memory.weights=host"}),
              HasSubstr("memory.host_blocks: 5 is more than the 4 blocks of the model"));
}

}  // namespace
}  // namespace plimsoll::trainer
