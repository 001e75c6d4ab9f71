// A session that reads a checkpoint holds what it holds when it is told the same weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/loaded_state.h"

namespace plimsoll::trainer {
namespace {

using formats::TensorType;
using graph::DType;

TEST(SessionLoading, FillsEveryWayToStoreAParameter) {
  for (const bool llama : {false, true}) {
    TinyRun run{.spec = llama ? TinyLlama() : TinyGpt2()};
    const auto model = models::MakeModel(run.spec);
    for (const TensorType type : {TensorType::kF32, TensorType::kBf16, TensorType::kF16}) {
      const GivenWeights weights = WeightsFor(*model, type);
      const TempFolder folder;
      SaveGiven(folder.path(), *model, weights, type, 10'000);
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        for (const bool masters : {true, false}) {
          if (!masters && dtype != DType::kBFloat16) continue;
          for (const bool on_host : {false, true}) {
            SCOPED_TRACE(fmt::format("{}, {} in files, {}{}{}", run.spec.family,
                                     formats::TypeName(type), graph::Name(dtype),
                                     masters ? "" : ", rounded", on_host ? ", on the host" : ""));
            run.amp.dtype = dtype;
            run.update.master_weights = masters;
            run.weights_on_host = run.state_on_host = on_host;
            run.threads = on_host ? 1 : 3;
            ExpectLoadsAsWritten(run, *model, weights, folder.path());
          }
        }
      }
    }
  }
}

TEST(SessionLoading, ReadsParametersOfManyPieces) {
  TinyRun run{.spec = models::Gpt2Spec(1, 320, 2, 5000, 16)};
  const auto model = models::MakeModel(run.spec);
  const GivenWeights weights = WeightsFor(*model, TensorType::kBf16);
  const TempFolder folder;
  SaveGiven(folder.path(), *model, weights, TensorType::kBf16);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    run.amp.dtype = dtype;
    ExpectLoadsAsWritten(run, *model, weights, folder.path());
  }
}

TEST(SessionLoading, SaysThatAFileIsTooShort) {
  const TinyRun run{.spec = TinyLlama()};
  const auto model = models::MakeModel(run.spec);
  const TempFolder folder;
  SaveGiven(folder.path(), *model, WeightsFor(*model, TensorType::kF32), TensorType::kF32);
  const std::string file = folder / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4);
  ThreadPool pool(2);
  const auto device = runtime::MakeCpuDevice(pool);
  Session session(Compile(*model, OptionsOf(run, *model, device->kind())), *device);
  const auto before = StateBytes(session);
  ExpectUserError([&] { session.LoadWeights(*model, folder.path()); },
                  {file, "the file is damaged or incomplete"});
  EXPECT_EQ(StateBytes(session) == before, true);  // found before anything was read
}

}  // namespace
}  // namespace plimsoll::trainer
