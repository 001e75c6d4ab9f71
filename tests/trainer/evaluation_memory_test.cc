// Evaluations between steps take no additional memory: the arena of a training step with a program
// for evaluation is as large as that of the step alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/axes.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

class Draws {
 public:
  template <typename T>
  T Of(const std::vector<T>& choices) {
    return choices[random_() % choices.size()];
  }

 private:
  std::mt19937 random_{1};
};

CompileOptions RandomOptions(Draws& draws, const models::Model& model) {
  CompileOptions options;
  options.micro_batch = draws.Of<int64_t>({1, 2, 4, 8});
  options.sequence = draws.Of<int64_t>({8, 16, 64});
  options.accumulate = draws.Of<int64_t>({1, 2, 3});
  const auto tensor_ranks = draws.Of<int64_t>({1, 1, 2});
  options.sequence_parallel = tensor_ranks > 1 && draws.Of<bool>({false, true});
  options.mesh = Mesh({DataAxis(draws.Of<int64_t>({1, 2, 4})), TensorAxis(tensor_ranks)});
  options.zero = draws.Of<int64_t>({0, 1, 2, 3});
  options.device = draws.Of<runtime::DeviceKind>(
      {runtime::DeviceKind::kCpu, runtime::DeviceKind::kCpu, runtime::DeviceKind::kCuda});
  options.amp.dtype = draws.Of<graph::DType>(
      {graph::DType::kFloat32, graph::DType::kBFloat16, graph::DType::kFloat16});
  options.update.algorithm = draws.Of<optim::UpdateOptions::Algorithm>(
      {optim::UpdateOptions::Algorithm::kAdamW, optim::UpdateOptions::Algorithm::kSgd});
  options.update.momentum = draws.Of<double>({0, 0.9});
  options.on_host.state = draws.Of<bool>({false, true});
  options.checkpointing.policy = draws.Of<Policy>({Policy::kNone, Policy::kBlock, Policy::kEvery});
  if (draws.Of<int>({0, 0, 1}) == 1) {
    options.lora = {.rank = 2,
                    .alpha = 4,
                    .dropout = draws.Of<double>({0, 0.1}),
                    .layers = adapters::SelectLayers(model, {"all-linear"})};
    options.frozen = adapters::FrozenParameters(model, options.lora);
  } else {
    options.frozen = draws.Of<std::vector<std::string>>(
        {{}, {}, {"embed*"}, {"block.*"}, {"embed*", "block.*"}});
  }
  return options;
}

TEST(EvaluationMemory, NeverRaisesThePeak) {
  Draws draws;
  for (int i = 0; i < 200; ++i) {
    const auto layers = draws.Of<int64_t>({1, 2, 3}), vocab = draws.Of<int64_t>({96, 1000, 5000});
    const models::ModelSpec spec =
        draws.Of<int>({0, 1}) == 0
            ? models::Gpt2Spec(layers, 32, 2, vocab, 64)
            : models::LlamaSpec({layers, 32, 2, 2, 16, 80, vocab, 64, false});
    const auto model = models::MakeModel(spec);
    CompileOptions options = RandomOptions(draws, *model);
    const memory::MemoryPlan alone = Compile(*model, options).plan;
    options.evaluate = true;
    const memory::MemoryPlan with = Compile(*model, options).plan;
    EXPECT_EQ(with.arena_bytes, alone.arena_bytes) << fmt::format(
        "draw {}: {} × {} tokens, {} micro-steps, ranks {} × {}, ZeRO {}, {} layers", i,
        options.micro_batch, options.sequence, options.accumulate, options.mesh.ranks(kDataAxis),
        options.mesh.ranks(kTensorAxis), options.zero, layers);
    EXPECT_EQ(with.host_arena_bytes, alone.host_arena_bytes) << "draw " << i;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
