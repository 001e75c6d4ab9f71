// Ranks that read a checkpoint hold what they hold when they are told the same weights, however
// they divide and share them. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parallel/host_on_ranks.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/loaded_state.h"

namespace plimsoll::trainer {
namespace {

using formats::TensorType;
using graph::DType;

class LoadingOnRanks : public HostOnRanks {};

TEST_F(LoadingOnRanks, EachRankTakesItsPart) {
  for (const bool llama : {false, true}) {
    const models::ModelSpec spec =
        llama ? models::LlamaSpec({2, 32, 4, 2, 8, 80, 96, 16, false}) : TinyGpt2();
    const auto model = models::MakeModel(spec);
    const GivenWeights weights = WeightsFor(*model, TensorType::kBf16);
    const TempFolder folder;  // of each rank
    SaveGiven(folder.path(), *model, weights, TensorType::kBf16, 20'000);
    for (const int64_t tensor : {1, 2}) {
      for (const int64_t zero : {0, 1, 2, 3}) {
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
          SCOPED_TRACE(fmt::format("{}, {} tensor ranks, ZeRO {}, {}", llama ? "Llama" : "GPT-2",
                                   tensor, zero, graph::Name(dtype)));
          TinyRun run = Run(llama, zero);
          run.spec = spec;
          Use(run, tensor);
          run.amp.dtype = dtype;
          ExpectLoadsAsWritten(run, *model, weights, folder.path());
        }
      }
    }
  }
}

// Rows of a vocabulary that is larger than the checkpoint's, which the last rank has.
TEST_F(LoadingOnRanks, TheLastRankTakesNewTokens) {
  const models::ModelSpec spec = models::LlamaSpec({2, 32, 4, 2, 8, 80, 90, 16, false});
  const auto stored = models::MakeModel(spec);
  const TempFolder folder;
  SaveGiven(folder.path(), *stored, WeightsFor(*stored, TensorType::kF32), TensorType::kF32);
  Settings settings;
  settings.Set("vocab", int64_t{96}, "test");
  settings.Set("sequence", int64_t{16}, "test");
  const auto model = models::ModelFromHuggingFace(folder.path(), settings);
  GivenWeights weights;
  const models::WeightReader reader(folder.path(), *model, models::Misfits::kFitted);
  for (const models::ParameterInfo& parameter : model->parameters()) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.shape.elements()));
    reader.Read(parameter, values.data());
  }
  for (const int64_t tensor : {1, 2}) {
    for (const bool on_host : {false, true}) {
      SCOPED_TRACE(fmt::format("{} tensor ranks{}", tensor, on_host ? ", on the host" : ""));
      TinyRun run = Run(true, 3);
      run.spec = models::LanguageSpec(*model);
      Use(run, tensor);
      run.weights_on_host = run.state_on_host = on_host;
      ExpectLoadsAsWritten(run, *model, weights, folder.path());
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
