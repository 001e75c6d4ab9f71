// The law of checkpointing: training gives the same bits whatever is recomputed or offloaded. And
// each policy uses the memory that its plan says, which is less than for keeping everything.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "checkpointing/retention_policy.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using checkpointing::Options;
using Policy = Options::Policy;

struct NamedPolicy {
  std::string name;
  Options options;
  bool on_host = false;
};

std::vector<NamedPolicy> Policies() {
  Options block, every2, every3, selective, attention, offload, mixed;
  block.policy = Policy::kBlock;
  every2.policy = every3.policy = Policy::kEvery;
  every2.every = 2;
  every3.every = 3;
  selective.policy = attention.policy = Policy::kSelective;
  selective.recompute.patterns = {"norms", "activations"};
  attention.recompute.patterns = {"attention", "*.attn.*", "*.residual_1"};
  attention.save.patterns = {"block.1.*"};
  offload.offload.patterns = {"*"};
  mixed.policy = Policy::kBlock;
  mixed.offload.patterns = {"block.*.residual_2"};
  return {{"Block", block},
          {"Every2", every2},
          {"Every3", every3},
          {"Selective", selective},
          {"SelectiveByName", attention},
          {"Offload", offload, true},
          {"BlockAndOffload", mixed, true}};
}

struct Model {
  std::string name;
  models::ModelSpec spec;
};

std::vector<Model> Models() {
  // More blocks than any policy combines; the dropout masks must be the same when recomputed.
  models::ModelSpec gpt2 = TinyGpt2(), llama = TinyLlama();
  gpt2.layers = llama.layers = 4;
  gpt2.dropout = 0.1;
  return {{"Gpt2", gpt2}, {"Llama", llama}};
}

// The model, micro-steps per update, type of the low-precision ops.
using Case = std::tuple<int, int, graph::DType>;

class Checkpointing : public testing::TestWithParam<Case> {
 protected:
  static TinyRun Run(const Options& options) {
    TinyRun run;
    run.spec = Models()[std::get<0>(GetParam())].spec;
    run.accumulate = std::get<1>(GetParam());
    run.micro_batch = 3;
    run.steps = 20;
    run.ignored = 0.1;
    run.amp.dtype = std::get<2>(GetParam());
    if (run.amp.dtype == graph::DType::kFloat16) run.update.loss_scale.emplace();
    run.checkpointing = options;
    return run;
  }
};

TEST_P(Checkpointing, GivesTheSameBitsUnderEveryPolicy) {
  const TinyResult expected = Train(Run({}));
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  for (const NamedPolicy& policy : Policies()) {
    SCOPED_TRACE(policy.name);
    const TinyResult result = Train(Run(policy.options));
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.grad_norms, expected.grad_norms);
    EXPECT_EQ(result.weights, expected.weights);
  }
}

// With so many sequences that activations make the peak.
TEST_P(Checkpointing, UsesThePlannedArenaAndLessOfIt) {
  constexpr int64_t kSequences = 8;
  TinyRun plain = Run({});
  plain.micro_batch = kSequences;
  plain.steps = 1;
  const int64_t everything = Train(plain).arena_bytes;
  for (const NamedPolicy& policy : Policies()) {
    SCOPED_TRACE(policy.name);
    TinyRun run = Run(policy.options);
    run.micro_batch = kSequences;
    run.steps = 2;
    run.executor.check_arena = true;
    const TinyResult result = Train(run);
    EXPECT_EQ(result.used_bytes, result.arena_bytes);
    EXPECT_LT(result.arena_bytes, everything);
    EXPECT_EQ(result.host_arena_bytes > 0, policy.on_host);

    // No dead memory is read.
    run.executor = {.poison = true};
    EXPECT_EQ(Train(run).losses, result.losses);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Checkpointing,
                         testing::Combine(testing::Values(0, 1), testing::Values(1, 3),
                                          testing::Values(graph::DType::kFloat32,
                                                          graph::DType::kBFloat16,
                                                          graph::DType::kFloat16)),
                         [](const auto& info) {
                           return Models()[std::get<0>(info.param)].name + "Accumulate" +
                                  std::to_string(std::get<1>(info.param)) +
                                  std::string(Name(std::get<2>(info.param)));
                         });

}  // namespace
}  // namespace plimsoll::trainer
