// Attention with stored scores is blockwise attention but for rounding, dropout included; and its
// T×T tensors are activations like others: planned to the byte, recomputed and offloaded with the
// same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/autodiff.h"
#include "models/family.h"
#include "ops/stored_attention/stored_attention.h"
#include "tests/models/model_of.h"
#include "tests/ops/interpreter.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"

namespace plimsoll::trainer {
namespace {

using checkpointing::Options;
using graph::Program;
using graph::Role;
using models::ModelOf;
using models::Values;

constexpr int64_t kBatch = 3, kSequence = 13, kVocab = 37;

Values Sizes(double dropout) {
  return {{"layers", int64_t{2}},           {"width", int64_t{16}},     {"heads", int64_t{4}},
          {"sequence", int64_t{kSequence}}, {"vocab", int64_t{kVocab}}, {"dropout", dropout}};
}

// The loss and all gradients of a training program, run by an interpreter.
std::map<std::string, std::vector<double>> Results(const models::Model& model, bool stored) {
  Program program("train");
  graph::Builder builder(program);
  program.Rename(model.Build(builder, {kBatch, kSequence}, models::Head::kLoss, true).loss, "loss");
  if (stored) ops::StoredAttention().Run(program);
  EXPECT_NE(ops::HasAttention(program), stored);
  graph::Autodiff({}).Run(program);

  ThreadPool pool(2);
  ops::Interpreter interpreter(program, pool);
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent || tensor.role == Role::kMetric) continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
      if (tensor.name == "token_weight") {
        values.push_back(1.0 / (kBatch * kSequence));
      } else if (tensor.name == "lengths") {
        values.push_back(static_cast<double>(1 + random() % kSequence));
      } else if (tensor.name == "token_types") {
        values.push_back(static_cast<double>(random() % 2));
      } else if (tensor.type.dtype == graph::DType::kInt32) {
        values.push_back(static_cast<double>(random() % kVocab));
      } else {
        values.push_back(std::normal_distribution<double>(0, 0.3)(random));
      }
    }
    interpreter.Set(tensor.name, values);
  }
  interpreter.Run();
  std::map<std::string, std::vector<double>> results;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.role == Role::kMetric || tensor.name.ends_with(".grad")) {
      results[tensor.name] = interpreter.Get(tensor.name);
    }
  }
  return results;
}

void ExpectSameAsBlockwise(const std::string& family, const Values& values) {
  SCOPED_TRACE(family);
  const auto model = ModelOf(family, values);
  const auto expected = Results(*model, false), results = Results(*model, true);
  EXPECT_GT(expected.size(), 10u);
  ASSERT_EQ(results.size(), expected.size());
  for (const auto& [name, blockwise] : expected) {
    const std::vector<double>& stored = results.at(name);
    double largest = 1e-3;
    for (const double value : blockwise) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < blockwise.size(); ++i) {
      ASSERT_NEAR(stored[i], blockwise[i], 2e-5 * largest) << name << " " << i;
    }
  }
}

TEST(StoredScores, GivesTheLossAndGradientsOfBlockwiseAttention) {
  for (const double dropout : {0.0, 0.2}) {
    ExpectSameAsBlockwise("gpt2", Sizes(dropout));
    Values bert = Sizes(dropout);
    bert.emplace_back("padded", true);
    ExpectSameAsBlockwise("bert", bert);
  }
  Values llama = Sizes(0);
  std::erase_if(llama, [](const auto& setting) { return setting.first == "dropout"; });
  llama.emplace_back("kv_heads", int64_t{2});
  ExpectSameAsBlockwise("llama", llama);
}

TinyRun Stored(bool gpt2, graph::DType dtype, const Options& policy = {}) {
  TinyRun run;
  run.spec = gpt2 ? TinyGpt2() : TinyLlama();
  run.spec.layers = 4;
  if (gpt2) run.spec.dropout = 0.1;
  run.stored_attention = true;
  run.steps = 8;
  run.accumulate = gpt2 ? 2 : 1;
  run.amp.dtype = dtype;
  if (dtype == graph::DType::kFloat16) run.update.loss_scale.emplace();
  run.checkpointing = policy;
  return run;
}

std::map<std::string, Options> Policies() {
  std::map<std::string, Options> policies;
  policies["block"].policy = Options::Policy::kBlock;
  policies["every"].policy = Options::Policy::kEvery;
  policies["every"].every = 2;
  policies["attention"].policy = Options::Policy::kSelective;
  policies["attention"].recompute.patterns = {"attention"};
  policies["all T×T"].policy = Options::Policy::kSelective;
  policies["all T×T"].recompute.patterns = {"*.probabilities*"};
  policies["offload"].offload.patterns = {"*.probabilities*"};
  return policies;
}

TEST(StoredScores, TrainsToTheSameBitsUnderEveryPolicyInWhatIsPlanned) {
  for (const bool gpt2 : {true, false}) {
    for (const graph::DType dtype :
         {graph::DType::kFloat32, graph::DType::kBFloat16, graph::DType::kFloat16}) {
      TinyRun plain = Stored(gpt2, dtype);
      plain.executor.check_arena = true;
      const TinyResult expected = Train(plain);
      EXPECT_EQ(expected.used_bytes, expected.arena_bytes);
      for (const auto& [name, policy] : Policies()) {
        SCOPED_TRACE(name + (gpt2 ? ", gpt2, " : ", llama, ") + std::string(graph::Name(dtype)));
        TinyRun run = Stored(gpt2, dtype, policy);
        run.executor.check_arena = true;
        const TinyResult result = Train(run);
        EXPECT_EQ(result.losses, expected.losses);
        EXPECT_EQ(result.grad_norms, expected.grad_norms);
        EXPECT_EQ(result.weights, expected.weights);
        EXPECT_EQ(result.used_bytes, result.arena_bytes);
        EXPECT_LT(result.arena_bytes, expected.arena_bytes);
        EXPECT_EQ(result.host_arena_bytes > 0, name == "offload");
        run.executor = {.poison = true};
        EXPECT_EQ(Train(run).losses, expected.losses);
      }
    }
  }
}

TEST(StoredScores, TrainsAndEvaluatesAsBlockwise) {
  TinyRun run = Stored(true, graph::DType::kFloat32);
  run.evaluate = true;
  const TinyResult stored = Train(run);
  run.stored_attention = false;
  const TinyResult blockwise = Train(run);
  EXPECT_NE(stored.weights, blockwise.weights) << "the same kernels";
  for (size_t i = 0; i < stored.losses.size(); ++i) {
    EXPECT_NEAR(stored.losses[i], blockwise.losses[i], 1e-4);
    EXPECT_NEAR(stored.evaluations[i], blockwise.evaluations[i], 1e-4);
  }
}

// At the peak, the loss, the probabilities of all layers wait, and what dropout leaves of them; but
// not blockwise attention's statistics of each query.
TEST(StoredScores, TakesTheBytesOfItsProbabilities) {
  constexpr int64_t kLength = 128, kLayers = 4, kHeads = 2, kSequences = 2, kFloat = 4;
  const auto arena = [](bool stored) {
    TinyRun run = Stored(true, graph::DType::kFloat32);
    run.spec.max_sequence = run.sequence = kLength;
    run.micro_batch = kSequences;
    run.steps = 1;
    run.stored_attention = stored;
    return Train(run).arena_bytes;
  };
  EXPECT_EQ(arena(true) - arena(false),
            kLayers * kSequences * kHeads * kLength * (2 * kLength - 1) * kFloat);
}

std::optional<std::string> Refusal(const std::string& text) {
  const config::RunConfig config = LoadRunText(text, "run.yaml", {}, 2).config;
  return MessageOf<UserError>([&] { (void)CompileFrom(config, *ModelFrom(config)); });
}

TEST(StoredScores, IsRefusedWhereScoresCannotBeStored) {
  const std::string gpt2 =
      "model: {family: gpt2, layers: 2, width: 16, heads: 2, vocab: 64, sequence: 8,\n"
      "  attention: stored}\n"
      "data: {synthetic: true}\n";
  EXPECT_EQ(Refusal(gpt2), std::nullopt);
  EXPECT_EQ(Refusal(gpt2 + "parallel: {tensor: 2}\n"),
            "run.yaml:2: model.attention: 2 tensor ranks cannot share stored scores; use "
            "blockwise, or parallel.tensor: 1");
  EXPECT_EQ(Refusal("model: {family: resnet, depth: 18, image_size: 32, classes: 10,\n"
                    "  attention: stored}\n"
                    "data: {source: synthetic_images}\n"),
            "run.yaml:2: model.attention: a resnet model has no attention whose scores could be "
            "stored; leave it out");
}

}  // namespace
}  // namespace plimsoll::trainer
