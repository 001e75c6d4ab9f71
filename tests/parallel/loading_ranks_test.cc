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
          run.ranks = Ranks(tensor);
          run.amp.dtype = dtype;
          ExpectLoadsAsWritten(run, *model, weights, folder.path());
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
