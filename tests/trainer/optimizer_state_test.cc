// Whole steps with each way to store weights and moments: they train like float32, and the place of
// the state changes no bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using optim::StateDType;

struct Storage {
  std::string name;
  DType dtype = DType::kFloat32;
  bool master_weights = true;
  StateDType state = StateDType::kFloat32;
};

TinyRun RunOf(const Storage& storage) {
  TinyRun run;
  run.spec.dropout = 0.1;
  run.repeat = true;
  run.steps = 12;
  run.lr = 3e-3;
  run.amp.dtype = storage.dtype;
  run.update.master_weights = storage.master_weights;
  run.update.state_dtype = storage.state;
  if (storage.dtype == DType::kFloat16) run.update.loss_scale = ops::LossScaleOptions{};
  run.executor.poison = true;
  return run;
}

class OptimizerState : public testing::TestWithParam<Storage> {};

void PrintTo(const Storage& storage, std::ostream* out) { *out << storage.name; }

// The same tokens in each step, so that the loss falls quickly; wrong updates would not follow it.
TEST_P(OptimizerState, TrainsLikeFloat32) {
  const TinyResult expected = Train(RunOf({"float32"}));
  const TinyResult actual = Train(RunOf(GetParam()));
  const double fall = expected.losses.front() - expected.losses.back();
  ASSERT_GT(fall, 0.5);
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], 0.05 * fall) << step;
  }
}

TEST_P(OptimizerState, IsTheSameOnTheHost) {
  for (int accumulate : {1, 3}) {
    TinyRun run = RunOf(GetParam());
    run.steps = 4;
    run.accumulate = accumulate;
    const TinyResult device = Train(run);
    run.state_on_host = true;
    const TinyResult host = Train(run);
    EXPECT_EQ(host.losses, device.losses);
    EXPECT_EQ(host.grad_norms, device.grad_norms);
    EXPECT_EQ(host.weights, device.weights);
    EXPECT_EQ(device.host_arena_bytes, 0);
    EXPECT_GT(host.host_arena_bytes, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Storage, OptimizerState,
    testing::Values(Storage{"Float32BFloat16State", DType::kFloat32, true, StateDType::kBFloat16},
                    Storage{"Float32EightBitState", DType::kFloat32, true, StateDType::kInt8},
                    Storage{"BFloat16", DType::kBFloat16},
                    Storage{"BFloat16EightBitState", DType::kBFloat16, true, StateDType::kInt8},
                    Storage{"BFloat16Alone", DType::kBFloat16, false, StateDType::kBFloat16},
                    Storage{"Float16", DType::kFloat16},
                    Storage{"Float16BFloat16State", DType::kFloat16, true, StateDType::kBFloat16}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll::trainer
