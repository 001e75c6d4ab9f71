// Averages of weights in every form of storage: what is averaged, what leaves them alone, and that
// two exchanges restore all bits.
#include "ops/optimizer/weight_average.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "base/low_precision.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr int64_t kN = 700;  // two blocks and a part

struct Form {
  std::string name;
  DType p = DType::kFloat32;
  std::optional<DType> master = {};
};

class WeightAverageOf : public testing::TestWithParam<Form> {
 protected:
  // Stores `value` as an update leaves it.
  WeightAverageOf() {
    if (GetParam().master) master_.emplace(graph::TensorType{*GetParam().master, {kN}});
    for (int64_t i = 0; i < kN; ++i) {
      const auto x = static_cast<float>(value_.at(i));
      p_.set(i, x);
      if (master_ && *GetParam().master == DType::kFloat32) master_->set(i, x);
      if (!master_ || *GetParam().master == DType::kFloat32) continue;
      const SplitFloat split = Split(x);
      p_.as<BFloat16>()[i] = split.high;
      master_->as<int16_t>()[i] = split.low;
    }
    if (!master_) value_ = p_;
  }

  const TestTensor* master() const { return master_ ? &*master_ : nullptr; }

  TestTensor Average(const TestTensor& average, int count, const TestTensor* apply = nullptr) {
    const TestTensor counter = Values(DType::kInt32, {}, {static_cast<double>(count)});
    return RunOp("weight_average", {&average, &p_, &counter, master(), apply},
                 {{"decay", 0.9}, {"warmup", false}})[0];
  }

  TestTensor value_ = NormalValues(DType::kFloat32, {kN}, 1);
  TestTensor p_{{GetParam().p, {kN}}};
  std::optional<TestTensor> master_;
};

TEST_P(WeightAverageOf, TheFirstUpdateCopiesAndLaterOnesMoveTowardsTheWeight) {
  const TestTensor any = NormalValues(DType::kFloat32, {kN}, 2);
  const TestTensor first = Average(any, 1), second = Average(any, 2);
  for (int64_t i = 0; i < kN; ++i) {
    EXPECT_EQ(first.at(i), value_.at(i)) << i;
    EXPECT_NEAR(second.at(i), any.at(i) + 0.1 * (value_.at(i) - any.at(i)), 1e-6) << i;
  }
}

TEST_P(WeightAverageOf, ASkippedStepLeavesItAlone) {
  const TestTensor any = NormalValues(DType::kFloat32, {kN}, 2);
  const TestTensor no = Values(DType::kInt32, {}, {0}), yes = Values(DType::kInt32, {}, {1});
  EXPECT_TRUE(SameBits(Average(any, 1, &no), any));
  EXPECT_TRUE(SameBits(Average(any, 1, &yes), Average(any, 1)));
}

TEST_P(WeightAverageOf, TwoExchangesRestoreAllBits) {
  const TestTensor average = NormalValues(DType::kFloat32, {kN}, 3);
  const std::vector<bool> want = {true, true, master_.has_value()};
  const auto exchange = [&](const TestTensor& p, const TestTensor& a, const TestTensor* m) {
    return RunOp("exchange_average", {&p, &a, m}, {}, 2, want);
  };
  const std::vector<TestTensor> once = exchange(p_, average, master());
  const std::vector<TestTensor> twice = exchange(once[0], once[1], master_ ? &once[2] : nullptr);
  EXPECT_TRUE(SameBits(twice[0], p_));
  EXPECT_TRUE(SameBits(twice[1], average));
  EXPECT_TRUE(!master_ || SameBits(twice[2], *master_));
  // In between, the weight is the average as nearly as its type allows.
  const double spacing = GetParam().p == DType::kFloat32   ? 0
                         : GetParam().p == DType::kFloat16 ? 0x1p-11
                                                           : 0x1p-8;
  for (int64_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(once[0].at(i), average.at(i), spacing * std::fabs(average.at(i)) + 1e-7) << i;
    EXPECT_TRUE(GetParam().p != DType::kFloat32 || once[1].at(i) == p_.at(i)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, WeightAverageOf,
                         testing::Values(Form{"float32"},
                                         Form{"split", DType::kBFloat16, DType::kInt16},
                                         Form{"bf16_master", DType::kBFloat16, DType::kFloat32},
                                         Form{"f16_master", DType::kFloat16, DType::kFloat32},
                                         Form{"bf16_alone", DType::kBFloat16}),
                         [](const testing::TestParamInfo<Form>& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll::ops
