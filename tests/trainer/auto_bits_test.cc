// The budget solver's choices change no bit: at five budgets, the losses, gradient norms and
// weights of twenty steps equal those of keeping everything.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll::trainer {
namespace {

struct Model {
  std::string name, yaml;
  models::ModelSpec spec;
};

std::vector<Model> Models() {
  models::ModelSpec gpt2 = TinyGpt2(), llama = TinyLlama();
  gpt2.layers = llama.layers = 4;
  gpt2.dropout = 0.1;
  return {{"Gpt2",
           "model: {family: gpt2, layers: 4, width: 32, heads: 2, vocab: 96, sequence: 16, "
           "dropout: 0.1}\n",
           gpt2},
          {"Llama",
           "model: {family: llama, layers: 4, width: 32, heads: 2, kv_heads: 1, head_width: 16, "
           "ffn_width: 80, vocab: 96, sequence: 16}\n",
           llama}};
}

// The model, micro-steps per update, amp.dtype.
using Case = std::tuple<int, int, std::string>;

class AutoBits : public testing::TestWithParam<Case> {
 protected:
  static Model Chosen() { return Models()[std::get<0>(GetParam())]; }

  static config::RunConfig Config() {
    const TempFolder folder;
    const std::string yaml =
        Chosen().yaml + "data: {synthetic: true}\n" +
        "train: {micro_batch: 3, eval_every: 0, threads: 2, accumulate: " +
        std::to_string(std::get<1>(GetParam())) + "}\n" +
        "amp: {dtype: " + std::get<2>(GetParam()) + "}\n" +
        "checkpointing: {policy: auto}\nmemory: {calibrate: false, budget: 1GiB}\n";
    return LoadRun(folder.Write("run.yaml", yaml), {}).config;
  }

  static TinyRun Run(const CompileOptions& options) {
    TinyRun run;
    run.spec = Chosen().spec;
    run.micro_batch = options.micro_batch;
    run.accumulate = options.accumulate;
    run.steps = 20;
    run.ignored = 0.1;
    run.amp = options.amp;
    run.update = options.update;
    run.init_loss_scale = options.init_loss_scale;
    run.checkpointing = options.CheckpointingOf("");
    return run;
  }
};

TEST_P(AutoBits, AreThoseOfKeepingEverything) {
  StepSolver solver(Config());
  const memory::Candidate* fastest = solver.solver().Fastest({});
  TinyRun keeping = Run(solver.OptionsOf(*fastest));
  keeping.checkpointing = {};
  const TinyResult expected = Train(keeping);
  const int64_t most = expected.arena_bytes;
  const int64_t least = solver.solver().Smallest().exact->needed_bytes;
  ASSERT_LT(least, most);
  for (int i = 0; i < 5; ++i) {
    const int64_t budget = least + (most - least) * i / 5;
    SCOPED_TRACE(budget);
    const memory::Candidate* chosen = solver.solver().Fastest({.device = budget});
    ASSERT_NE(chosen, nullptr);
    const TinyResult result = Train(Run(solver.OptionsOf(*chosen)));
    EXPECT_LE(result.arena_bytes, budget);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.grad_norms, expected.grad_norms);
    EXPECT_EQ(result.weights, expected.weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AutoBits,
                         testing::Combine(testing::Values(0, 1), testing::Values(1, 3),
                                          testing::Values("fp32", "bf16", "fp16")),
                         [](const auto& info) {
                           return Models()[std::get<0>(info.param)].name + "Accumulate" +
                                  std::to_string(std::get<1>(info.param)) + std::get<2>(info.param);
                         });

}  // namespace
}  // namespace plimsoll::trainer
