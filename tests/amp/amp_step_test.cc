// Whole training steps in mixed precision: forward, backward, loss scaling and update on the arena.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;

class MixedStep : public testing::TestWithParam<bool> {
 protected:
  // A run in that type; fp16 has a dynamic loss scale.
  TinyRun In(DType dtype) const {
    TinyRun run;
    run.spec = GetParam() ? TinyGpt2() : TinyLlama();
    run.amp.dtype = dtype;
    run.evaluate = true;
    run.repeat = true;
    run.steps = 12;
    run.lr = 3e-3;
    if (dtype == DType::kFloat16) run.update.loss_scale.emplace();
    return run;
  }

  // The same with a constant scale.
  TinyRun Scaled(DType dtype, double scale) const {
    TinyRun run = In(dtype);
    run.update.loss_scale = {.dynamic = false};
    run.init_loss_scale = scale;
    return run;
  }
};

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(a[i] - b[i]));
  }
  return largest;
}

TEST_P(MixedStep, LossesStayNearThoseOfFloat32) {
  const TinyResult full = Train(In(DType::kFloat32));
  EXPECT_LT(full.losses.back(), full.losses.front() - 0.3) << "nothing was learnt";
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const TinyResult low = Train(In(dtype));
    const double tolerance = dtype == DType::kBFloat16 ? 5e-3 : 5e-4;
    EXPECT_LT(LargestDifference(low.losses, full.losses), tolerance) << Name(dtype);
    EXPECT_NE(low.losses, full.losses) << "nothing was rounded";
    EXPECT_LT(low.arena_bytes, full.arena_bytes);
  }
}

TEST_P(MixedStep, PureBf16StaysNearFloat32) {
  TinyRun run = In(DType::kBFloat16);
  run.update.master_weights = false;
  EXPECT_LT(LargestDifference(Train(run).losses, Train(In(DType::kFloat32)).losses), 5e-3);
}

// A scale that is a power of two changes no bit, if the exponent has room for it.
TEST_P(MixedStep, TheLossScaleDoesNotMatter) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const TinyResult plain = Train(In(dtype));
    for (double scale : {1024.0, 2048.0}) {
      const TinyResult scaled = Train(Scaled(dtype, scale));
      EXPECT_EQ(scaled.losses, plain.losses) << Name(dtype);
      EXPECT_EQ(scaled.grad_norms, plain.grad_norms) << Name(dtype);
      EXPECT_EQ(scaled.weights, plain.weights) << Name(dtype);
    }
  }
}

// In fp16 a few tiny gradients underflow at one scale and not at the other.
TEST_P(MixedStep, TheLossScaleHardlyMattersInFp16) {
  const TinyResult once = Train(Scaled(DType::kFloat16, 32768));
  const TinyResult twice = Train(Scaled(DType::kFloat16, 65536));
  EXPECT_EQ(once.losses.front(), twice.losses.front());
  EXPECT_LT(LargestDifference(once.losses, twice.losses), 1e-4);
  EXPECT_EQ(once.last.skipped, 0);
  EXPECT_EQ(twice.last.skipped, 0);
}

// The scale starts far too high: steps are skipped until it fits, then training proceeds normally.
TEST_P(MixedStep, ADynamicScaleFindsItsPlace) {
  TinyRun run = In(DType::kFloat16);
  run.init_loss_scale = 0x1p32;
  run.steps = 30;
  const TinyResult result = Train(run);
  const auto overflowed = [](double norm) { return !std::isfinite(norm); };
  EXPECT_EQ(result.last.skipped, std::ranges::count_if(result.grad_norms, overflowed));
  EXPECT_EQ(result.last.loss_scale, std::ldexp(1.0, 32 - static_cast<int>(result.last.skipped)));

  const int first = static_cast<int>(std::ranges::find_if_not(result.grad_norms, overflowed) -
                                     result.grad_norms.begin());
  EXPECT_GT(first, 2);
  EXPECT_LT(first, 20);
  for (int i = 0; i <= first; ++i) {
    EXPECT_EQ(result.losses[i], result.losses[0]) << "step " << i << ": the weights have changed";
  }
  // From there on it equals a run that began with that scale.
  run.init_loss_scale = std::ldexp(1.0, 32 - first);
  run.steps -= first;
  const TinyResult expected = Train(run);
  EXPECT_EQ(expected.last.skipped, result.last.skipped - first);
  EXPECT_EQ(std::vector<double>(result.losses.begin() + first, result.losses.end()),
            expected.losses);
  EXPECT_EQ(result.weights, expected.weights);
}

// The same micro-batches, in sequence or all at once, weighted by the number of targets that count.
TEST_P(MixedStep, AccumulatesLikeOneLargeBatch) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    TinyRun run = In(dtype);
    run.steps = 3;
    run.ignored = 0.5;
    run.micro_batch = 8;
    const TinyResult whole = Train(run);
    run.micro_batch = 2;
    run.accumulate = 4;
    const TinyResult parts = Train(run);
    EXPECT_LT(LargestDifference(parts.losses, whole.losses), 1e-5) << Name(dtype);
    EXPECT_LT(LargestDifference(parts.grad_norms, whole.grad_norms), 1e-4) << Name(dtype);
  }
}

// Norms and the loss in float32, whose weights then stay float32, in all programs including
// evaluation.
TEST_P(MixedStep, OpKindsMayStayInFloat32) {
  TinyRun run = In(DType::kBFloat16);
  run.amp.fp32_ops = {"layer_norm", "rms_norm", "linear_cross_entropy"};
  const TinyResult full = Train(In(DType::kFloat32));
  EXPECT_LT(LargestDifference(Train(run).losses, full.losses), 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, MixedStep, testing::Bool(),
                         [](const auto& info) { return info.param ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace plimsoll::trainer
