// Whole steps of training adapters of a frozen model.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/trainer/tiny_session.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {
namespace {

std::vector<TinyRun> Variants() {
  std::vector<TinyRun> runs;
  for (const bool llama : {false, true}) {
    for (const graph::DType dtype :
         {graph::DType::kFloat32, graph::DType::kBFloat16, graph::DType::kFloat16}) {
      TinyRun run;
      run.spec = llama ? TinyLlama() : TinyGpt2();
      run.lora = llama ? std::vector<std::string>{"q_proj", "v_proj", "up_proj", "down_proj"}
                       : std::vector<std::string>{"c_attn", "c_proj"};
      run.lora_dropout = 0.1;
      run.lora_saved = {llama ? "lm_head" : "wpe"};
      run.amp.dtype = dtype;
      if (dtype == graph::DType::kFloat16) {
        run.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
      }
      run.evaluate = true;
      run.steps = 3;
      runs.push_back(run);
    }
  }
  return runs;
}

TEST(LoraSteps, TrainAdaptersAndLeaveTheModelAsItWas) {
  for (TinyRun run : Variants()) {
    SCOPED_TRACE(testing::Message() << run.spec.family << " " << Name(run.amp.dtype));
    const TinyResult trained = Train(run);
    run.lr = 0;
    const TinyResult none = Train(run);
    const auto model = models::MakeModel(run.spec);
    const std::vector<models::ParameterInfo>& of_model = model->parameters();
    ASSERT_GT(trained.weights.size(), of_model.size());
    const std::string saved = run.spec.family == "llama" ? "head.weight" : "embed.position.weight";
    for (size_t i = 0; i < trained.weights.size(); ++i) {
      if (i < of_model.size() && of_model[i].name != saved) {
        EXPECT_EQ(trained.weights[i], none.weights[i]) << of_model[i].name;
      } else {
        EXPECT_NE(trained.weights[i], none.weights[i]) << "parameter " << i;
      }
    }
    // Snapshots hold what is trained, and nothing else of the model.
    EXPECT_TRUE(trained.state.contains(saved));
    EXPECT_FALSE(trained.state.contains("block.0.attn.qkv.weight"));
    EXPECT_NE(trained.evaluations.back(), none.evaluations.back());
    run.lora.clear();
    EXPECT_LT(trained.arena_bytes, Train(run).arena_bytes);
  }
}

TEST(LoraSteps, LearnTokensByHeart) {
  for (TinyRun run : Variants()) {
    run.lora = {"all-linear"};
    run.lora_dropout = 0;
    run.repeat = true;
    run.steps = 60;
    run.lr = 2e-2;
    const std::vector<double> losses = Train(run).losses;
    EXPECT_LT(losses.back(), 0.95 * losses.front());
  }
}

// To the bit: threads, poisoned memory, checked arenas, activations recomputed or offloaded.
TEST(LoraSteps, GiveTheSameBitsHoweverTheyRun) {
  for (const TinyRun& run : Variants()) {
    const TinyResult want = Train(run);
    TinyRun other = run;
    other.threads = 1;
    ExpectSameNumbers(Train(other), want);
    other = run;
    other.executor.poison = other.executor.check_arena = true;
    const TinyResult checked = Train(other);
    ExpectSameNumbers(checked, want);
    EXPECT_EQ(checked.used_bytes, checked.arena_bytes);
    other = run;
    other.checkpointing.policy = checkpointing::Options::Policy::kBlock;
    ExpectSameNumbers(Train(other), want);
    other.checkpointing.policy = checkpointing::Options::Policy::kNone;
    other.checkpointing.offload = {{"*"}, "offload"};
    ExpectSameNumbers(Train(other), want);
    other = run;
    other.state_on_host = true;
    ExpectSameNumbers(Train(other), want);
  }
}

// The micro-steps of a batch equal the whole batch, except for the order of sums.
TEST(LoraSteps, AccumulateGradients) {
  for (TinyRun run : Variants()) {
    if (run.amp.enabled()) continue;
    run.lora_dropout = 0;
    run.evaluate = false;
    const TinyResult want = Train(run);
    run.micro_batch = 1;
    run.accumulate = 4;
    const TinyResult got = Train(run);
    for (size_t step = 0; step < want.losses.size(); ++step) {
      EXPECT_NEAR(got.losses[step], want.losses[step], 1e-5);
      EXPECT_NEAR(got.grad_norms[step], want.grad_norms[step], 1e-4 * want.grad_norms[step]);
    }
  }
}

// A has PEFT's kaiming uniform with a = √5, B is zero: the model is unchanged at first. Adapters
// with the same name begin alike, whatever other adapters there are.
TEST(InitializeAdapter, DependsOnSeedAndNameAlone) {
  const auto model = models::MakeModel(TinyLlama());
  ThreadPool pool(2);
  const auto begin = [&](const std::vector<std::string>& targets, uint64_t seed) {
    CompileOptions options;
    options.micro_batch = 1;
    options.sequence = 16;
    options.threads = 2;
    options.lora = {.rank = 4, .alpha = 8, .layers = adapters::SelectLayers(*model, targets)};
    options.frozen = adapters::FrozenParameters(*model, options.lora);
    Session session(Compile(*model, options), pool);
    InitializeAdapter(session, seed);
    for (const float b : session.ReadParameter("block.1.mlp.down.lora_b")) EXPECT_EQ(b, 0);
    return session.ReadParameter("block.1.mlp.down.lora_a");
  };
  const std::vector<float> a = begin({"down_proj"}, 1);
  EXPECT_EQ(begin({"all-linear"}, 1), a);
  EXPECT_NE(begin({"down_proj"}, 2), a);
  const double bound = 1 / std::sqrt(80.0);  // the feed-forward width
  double sum = 0, squares = 0;
  for (const float x : a) {
    EXPECT_LE(std::abs(x), bound);
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(a.size());
  EXPECT_NEAR(sum / count, 0, 0.1 * bound);
  EXPECT_NEAR(squares / count, bound * bound / 3, 0.05 * bound * bound);
}

}  // namespace
}  // namespace plimsoll::trainer
