// Parameters on a GPU begin with the bits that they have on the CPU, in every form and place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/low_precision.h"
#include "tests/support/needs_cuda.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

struct Form {
  std::string name;
  graph::DType dtype = graph::DType::kFloat32;
  bool weights_on_host = false, state_on_host = false;
  bool master_weights = true;
};

class CudaInitialize : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }

  static TinyRun RunOf(const Form& form) {
    TinyRun run{.spec = models::Gpt2Spec(2, 32, 2, 9601, 16), .steps = 0};
    run.amp.dtype = form.dtype;
    run.weights_on_host = form.weights_on_host;
    run.state_on_host = form.state_on_host;
    run.update.master_weights = form.master_weights;
    return run;
  }
};

TEST_P(CudaInitialize, GivesTheBitsOfTheCpu) {
  TinyRun run = RunOf(GetParam());
  const TinyResult cpu = Train(run);
  run.cuda = true;
  const TinyResult gpu = Train(run);
  EXPECT_EQ(gpu.weights, cpu.weights);
  EXPECT_EQ(gpu.state, cpu.state) << "of what snapshots hold";
}

TEST_P(CudaInitialize, IsDoneBeforeTheFirstStep) {
  TinyRun run = RunOf(GetParam());
  run.cuda = true;
  run.steps = 2;
  const TinyResult placed = Train(run);
  run.weights_on_host = run.state_on_host = false;
  const TinyResult plain = Train(run);
  EXPECT_EQ(placed.losses, plain.losses);
  EXPECT_EQ(placed.weights, plain.weights);
}

TEST_P(CudaInitialize, WritesPiecesOfACheckpoint) {
  const TinyRun run = RunOf(GetParam());
  const auto model = models::MakeModel(run.spec);
  ThreadPool pool(2);
  const auto device = runtime::MakeCudaDevice(pool);
  Session session(Compile(*model, OptionsOf(run, *model, device->kind())), *device);
  for (const models::ParameterInfo& parameter : model->parameters()) {
    const int64_t elements = parameter.shape.elements();
    const std::span<std::byte> staging = session.Staging(2 * elements);
    std::vector<uint16_t> low;
    std::vector<float> expected;
    for (int64_t i = 0; i < elements; ++i) {
      low.push_back(ToBf16(static_cast<float>(i % 4099) / 32));
      expected.push_back(FromBf16(low.back()));
    }
    std::memcpy(staging.data(), low.data(), staging.size());
    const TypedElements staged{graph::DType::kBFloat16, staging.data(), elements};
    const TypedElements elsewhere{graph::DType::kBFloat16,
                                  reinterpret_cast<const std::byte*>(low.data()), elements};
    // Pieces by turns out of memory that the GPU reads and out of other memory.
    constexpr int64_t kPiece = 10007;
    for (int64_t first = 0; first < elements; first += kPiece) {
      const int64_t end = std::min(first + kPiece, elements);
      const TypedElements& from = first / kPiece % 2 == 0 ? staged : elsewhere;
      session.WriteElements(parameter.name, first, from.Part(first, end));
    }
    session.AwaitWrites();
    std::memset(staging.data(), 0xFF, staging.size());
    EXPECT_EQ(session.ReadParameter(parameter.name), expected) << parameter.name;
  }
  session.Staging(0);
}

INSTANTIATE_TEST_SUITE_P(Forms, CudaInitialize,
                         testing::Values(Form{.name = "Float32"},
                                         Form{.name = "Float32OnHost", .weights_on_host = true},
                                         Form{.name = "Bf16", .dtype = graph::DType::kBFloat16},
                                         Form{.name = "Bf16OnHost",
                                              .dtype = graph::DType::kBFloat16,
                                              .weights_on_host = true,
                                              .state_on_host = true},
                                         Form{.name = "Bf16Alone",
                                              .dtype = graph::DType::kBFloat16,
                                              .master_weights = false},
                                         Form{.name = "Fp16", .dtype = graph::DType::kFloat16},
                                         Form{.name = "Fp16OnHost",
                                              .dtype = graph::DType::kFloat16,
                                              .weights_on_host = true,
                                              .state_on_host = true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll::trainer
