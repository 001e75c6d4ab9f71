// Training on all ranks equals training alone: the same losses, gradient norms and weights except
// for the order in which floats are added, and the same bits on every rank. Started under mpirun;
// every rank also trains alone, as the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kSequences = 8;  // of a step, on all ranks and micro-steps together

struct Combination {
  std::string name;
  TinyRun run;
  int64_t tensor_ranks = 1;
  std::string invalid;  // why it cannot run on so many ranks
};

// Models whose heads two and four ranks can share.
models::ModelSpec SharedGpt2() { return models::Gpt2Spec(2, 32, 4, 96, 16); }
models::ModelSpec SharedLlama() { return models::LlamaSpec({2, 32, 4, 2, 8, 80, 96, 16, false}); }
// With parameters of all heads.
models::ModelSpec SharedQwen3() { return models::Qwen3Spec({2, 32, 4, 2, 12, 80, 96, 16, true}); }
// Its window is shorter than the sequence, and its caps are low enough to count.
models::ModelSpec SharedGemma2() {
  models::ModelSpec spec = models::Gemma2Spec({2, 32, 4, 2, 12, 80, 96, 16, true});
  spec.window = 5;
  spec.attn_logit_softcapping = 0.5;
  spec.final_logit_softcapping = 0.7;
  return spec;
}

const char* Name(checkpointing::Options::Policy policy) {
  using Policy = checkpointing::Options::Policy;
  return policy == Policy::kBlock ? "block" : policy == Policy::kSelective ? "selective" : "none";
}

std::string WhyInvalid(const Combination& c, int64_t data_ranks) {
  if (c.run.micro_batch == 0) {
    return fmt::format("{} sequences do not make {} micro-steps on {} ranks", kSequences,
                       c.run.accumulate, data_ranks);
  }
  if (c.run.sequence_parallel && c.tensor_ranks == 1) return "one rank has all rows";
  if (c.run.spec.kv_heads % c.tensor_ranks != 0) {
    return fmt::format("{} ranks cannot share {} key-value heads", c.tensor_ranks,
                       c.run.spec.kv_heads);
  }
  return "";
}

std::vector<Combination> Combinations(int64_t ranks) {
  std::vector<Combination> all;
  using Policy = checkpointing::Options::Policy;
  for (const models::ModelSpec& spec :
       {SharedGpt2(), SharedLlama(), SharedQwen3(), SharedGemma2()}) {
    for (int64_t tensor = 1; tensor <= ranks; tensor *= 2) {
      for (const bool sequence : {false, true}) {
        for (const int64_t accumulate : {1, 2, 4}) {
          for (const Policy policy : {Policy::kNone, Policy::kBlock, Policy::kSelective}) {
            for (const bool offload : {false, true}) {
              // State on the host is independent of splitting layers, so not all combinations are
              // tested.
              for (const bool state_on_host : {false, true}) {
                if (tensor > 1 && state_on_host != offload) continue;
                // Of a model like Llama only what ranks share differs.
                const bool like_llama = spec.family == "qwen3" || spec.family == "gemma2";
                if (like_llama && (tensor == 1 || offload || accumulate == 4)) continue;
                // With presets, only the gathers among tensor-parallel ranks are new.
                if (policy == Policy::kSelective && (!sequence || offload)) continue;
                Combination c;
                c.tensor_ranks = tensor;
                c.name = fmt::format("{}, {} tensor ranks{} × {} micro-steps, {}{}{}", spec.family,
                                     tensor, sequence ? ", sequence" : "", accumulate, Name(policy),
                                     offload ? ", offload" : "",
                                     state_on_host ? ", state and weights on host" : "");
                c.run.spec = spec;
                c.run.sequence_parallel = sequence;
                c.run.accumulate = accumulate;
                c.run.micro_batch = kSequences / accumulate / (ranks / tensor);
                c.invalid = WhyInvalid(c, ranks / tensor);
                c.run.checkpointing.policy = policy;
                c.run.checkpointing.recompute.patterns = {"norms", "activations"};
                if (offload) c.run.checkpointing.offload.patterns = {"block.*.residual_2"};
                c.run.state_on_host = c.run.weights_on_host = state_on_host;
                c.run.ignored = 0.3;
                // A key's bias has no gradient except rounding errors, from which AdamW with its
                // own eps would make steps as large as any.
                c.run.update.eps = 1e-5;
                c.run.evaluate = true;
                c.run.bucket_bytes = 20'000;  // several buckets
                all.push_back(std::move(c));
              }
            }
          }
        }
      }
    }
  }
  return all;
}

// The result of one rank for the same step, with nothing saved, recomputed or moved; trained once
// for each model and number of micro-steps, with averages and without.
const TinyResult& Alone(const TinyRun& run) {
  static std::map<std::tuple<std::string, int64_t, bool>, TinyResult> results;
  const auto [found, fresh] =
      results.try_emplace({run.spec.family, run.accumulate, run.update.average.has_value()});
  if (fresh) {
    TinyRun alone = run;
    alone.sequence_parallel = false;
    alone.micro_batch = kSequences / run.accumulate;
    alone.checkpointing = {};
    alone.state_on_host = alone.weights_on_host = false;
    found->second = Train(alone);
  }
  return found->second;
}

TEST(Equivalence, RanksTrainAsOne) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  std::map<int64_t, TestMesh> meshes;
  int ran = 0, invalid = 0;
  for (const Combination& c : Combinations(world.size())) {
    if (!c.invalid.empty()) {
      if (world.rank() == 0) fmt::print("invalid: {}: {}\n", c.name, c.invalid);
      ++invalid;
      continue;
    }
    SCOPED_TRACE(c.name);
    const TestMesh& mesh = meshes.try_emplace(c.tensor_ranks, c.tensor_ranks).first->second;
    const TinyResult& want = Alone(c.run);
    TinyRun shared = c.run;
    mesh.Use(shared);
    shared.executor.check_arena = true;
    ExpectTrainsAs(shared, want);
    ++ran;
  }
  if (world.rank() == 0) fmt::print("{} combinations ran, {} are invalid\n", ran, invalid);
  EXPECT_GE(ran, 40);
}

// Data ranks divide the part of a tensor-parallel rank once more.
TEST(Equivalence, PartsAreDividedOnceMore) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  if (world.size() < 4) return;  // a mesh of two by two
  const TestMesh mesh(2);
  for (const models::ModelSpec& spec : {SharedGpt2(), SharedLlama(), SharedQwen3()}) {
    for (const int64_t zero : {1, 2, 3}) {
      for (const int64_t accumulate : {1, 2}) {
        SCOPED_TRACE(fmt::format("{}, stage {}, {} micro-steps", spec.family, zero, accumulate));
        TinyRun run;
        run.spec = spec;
        run.accumulate = accumulate;
        run.micro_batch = kSequences / accumulate / (world.size() / 2);
        run.ignored = 0.3;
        run.update.eps = 1e-5;
        run.update.average = ops::WeightAverageOptions{.decay = 0.75};
        run.evaluate = true;
        const TinyResult& want = Alone(run);
        run.zero = zero;
        run.sequence_parallel = zero != 2;
        run.executor.check_arena = true;
        mesh.Use(run);
        ExpectTrainsAs(run, want);
      }
    }
  }
}

// Stochastic rounding gives the same weights everywhere, whatever dropout drops; what
// tensor-parallel ranks have in common stays equal.
TEST(Equivalence, RanksRoundAndDropAlike) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const int tensor : {1, 2}) {
    for (const bool sequence : {false, true}) {
      if (sequence && tensor == 1) continue;
      SCOPED_TRACE(fmt::format("{} tensor ranks{}", tensor, sequence ? ", sequence" : ""));
      const TestMesh mesh(tensor);
      TinyRun run;
      run.spec = SharedGpt2();
      run.spec.dropout = 0.2;
      run.micro_batch = 2;
      run.sequence_parallel = sequence;
      run.amp.dtype = graph::DType::kBFloat16;
      run.update.master_weights = false;
      run.update.state_dtype = optim::StateDType::kBFloat16;
      mesh.Use(run);
      const TinyResult result = Train(run);
      ExpectAlikeOnAllRanks(result);
      // Tensor-parallel ranks share what they drop, so they have one slot.
      const auto distinct = [&](const std::vector<int32_t>& rng) {
        const std::vector<std::string> all = world.Gather(fmt::format("{}", fmt::join(rng, " ")));
        return static_cast<int>(std::set<std::string>(all.begin(), all.end()).size());
      };
      EXPECT_EQ(distinct(result.rng), world.size() / tensor);
    }
  }
}

// Tensor-parallel ranks drop what one rank drops: of the weights of their heads, of rows that they
// share and of columns that adapters read.
TEST(Equivalence, TensorRanksDropWhatOneDrops) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const bool llama : {false, true}) {
    for (const bool sequence : {false, true}) {
      for (const bool lora : {false, true}) {
        SCOPED_TRACE(fmt::format("{}{}{}", llama ? "llama" : "gpt2", sequence ? ", sequence" : "",
                                 lora ? ", lora" : ""));
        const int64_t tensor = llama ? 2 : world.size();
        const TestMesh mesh(tensor);
        TinyRun run;
        run.spec = llama ? SharedLlama() : SharedGpt2();
        run.spec.dropout = 0.2;
        run.micro_batch = 2;
        run.update.eps = 1e-5;
        run.checkpointing.policy = checkpointing::Options::Policy::kBlock;
        if (lora) {
          run.lora = {"all-linear"};
          run.lora_dropout = 0.3;
        }
        // A micro-step of each data rank is one of one rank.
        TinyRun alone = run;
        alone.accumulate *= world.size() / tensor;
        const TinyResult want = Train(alone);
        run.sequence_parallel = sequence;
        run.executor.check_arena = true;
        mesh.Use(run);
        ExpectTrainsAs(run, want);
      }
    }
  }
}

// Some of the parameters that tensor-parallel ranks share are frozen.
TEST(Equivalence, RanksTrainBesideFrozenParameters) {
  if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const bool sequence : {false, true}) {
    for (const int64_t zero : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{}ZeRO {}", sequence ? "sequence, " : "", zero));
      const TestMesh mesh(2);
      TinyRun run;
      run.spec = SharedGpt2();
      run.micro_batch = 4;
      run.steps = 3;
      run.update.eps = 1e-5;
      run.frozen = {"block.0.*", "embed.*"};
      const TinyResult want = Train(run);
      run.micro_batch = 4 / (TestWorld().size() / 2);
      run.sequence_parallel = sequence;
      run.zero = TestWorld().size() > 2 ? zero : 0;
      run.executor.check_arena = true;
      mesh.Use(run);
      ExpectTrainsAs(run, want);
    }
  }
}

// A or B is split like its weight; dropout drops the same elements where inputs are whole.
TEST(Equivalence, RanksTrainAdapters) {
  if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const bool llama : {false, true}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", llama ? "llama" : "gpt2", sequence ? ", sequence" : ""));
      const TestMesh mesh(2);
      TinyRun run;
      run.spec = llama ? SharedLlama() : SharedGpt2();
      run.micro_batch = 4;
      run.steps = 3;
      run.update.eps = 1e-5;
      run.evaluate = true;
      run.lora = llama ? std::vector<std::string>{"q_proj", "v_proj", "o_proj", "mlp.*"}
                       : std::vector<std::string>{"all-linear"};
      run.lora_saved =
          llama ? std::vector<std::string>{"embed_tokens", "lm_head", "layers.0.self_attn.*_proj"}
                : std::vector<std::string>{"wpe", "h.1.mlp.c_fc"};
      const TinyResult want = Train(run);
      run.micro_batch = 4 / (TestWorld().size() / 2);
      run.sequence_parallel = sequence;
      run.zero = TestWorld().size() > 2 ? 1 : 0;
      run.executor.check_arena = true;
      mesh.Use(run);
      ExpectTrainsAs(run, want);
    }
  }
}

// Each rank's part of an operand has a scale of its own: near what one rank trains, not its bits.
TEST(Equivalence, RanksShareEightBitLayers) {
  if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const bool llama : {false, true}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", llama ? "llama" : "gpt2", sequence ? ", sequence" : ""));
      const TestMesh mesh(2);
      TinyRun run;
      run.spec = llama ? SharedLlama() : SharedGpt2();
      run.micro_batch = 4;
      run.amp.dtype = graph::DType::kBFloat16;
      const TinyResult low = Train(run);
      run.amp.fp8.enabled = true;
      const TinyResult want = Train(run);
      run.micro_batch = 4 / (TestWorld().size() / 2);
      run.sequence_parallel = sequence;
      run.executor.check_arena = true;
      mesh.Use(run);
      const TinyResult got = Train(run);
      EXPECT_NE(got.losses, low.losses);
      for (size_t i = 0; i < got.losses.size(); ++i) {
        EXPECT_NEAR(got.losses[i], want.losses[i], 3e-3 * want.losses[i]) << "step " << i;
      }
      ExpectAlikeOnAllRanks(got);
    }
  }
}

// An overflow in one rank's part of a gradient skips the step on all ranks, as on one.
TEST(Equivalence, RanksSkipTheSameSteps) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const auto& [sequence, fp8] : {std::pair(false, false), {true, false}, {false, true}}) {
    SCOPED_TRACE(fmt::format("{}{}", sequence ? "sequence" : "", fp8 ? "8 bits" : ""));
    const TestMesh mesh(2);
    TinyRun run;
    run.spec = SharedGpt2();
    run.micro_batch = kSequences / (world.size() / 2);
    run.accumulate = 1;
    run.amp.dtype = graph::DType::kFloat16;
    run.amp.fp8.enabled = fp8;
    run.update.loss_scale = ops::LossScaleOptions{};
    run.init_loss_scale = 0x1p22;
    TinyRun alone = run;
    alone.micro_batch = kSequences;
    const TinyResult want = Train(alone);
    EXPECT_GT(want.last.skipped, 0);
    EXPECT_LT(want.last.skipped, run.steps);
    run.sequence_parallel = sequence;
    mesh.Use(run);
    const TinyResult got = Train(run);
    EXPECT_EQ(got.last.skipped, want.last.skipped);
    EXPECT_EQ(got.last.loss_scale, want.last.loss_scale);
    for (size_t i = 0; i < got.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], (fp8 ? 3e-3 : 1e-3) * want.losses[i])
          << "step " << i;
    }
    ExpectAlikeOnAllRanks(got);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
