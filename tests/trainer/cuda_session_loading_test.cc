// A GPU's session that reads a checkpoint holds what it holds when it is told the same weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/loaded_state.h"

namespace plimsoll::trainer {
namespace {

using formats::TensorType;
using graph::DType;

// Parameters of many pieces.
TEST(CudaSessionLoading, FillsEveryWayToStoreAParameter) {
  PLIMSOLL_NEEDS_CUDA
  TinyRun run{.spec = models::Gpt2Spec(1, 320, 2, 30000, 16), .threads = 4, .cuda = true};
  const auto model = models::MakeModel(run.spec);
  for (const TensorType type : {TensorType::kF32, TensorType::kBf16, TensorType::kF16}) {
    const GivenWeights weights = WeightsFor(*model, type);
    const TempFolder folder;
    SaveGiven(folder.path(), *model, weights, type, 1'000'000);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const bool on_host : {false, true}) {
        SCOPED_TRACE(fmt::format("{} in files, {}{}", formats::TypeName(type), graph::Name(dtype),
                                 on_host ? ", on the host" : ""));
        run.amp.dtype = dtype;
        run.weights_on_host = run.state_on_host = on_host;
        ExpectLoadsAsWritten(run, *model, weights, folder.path());
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
