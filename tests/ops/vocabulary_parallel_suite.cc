#include "tests/ops/vocabulary_parallel_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::ops {

using graph::DType;

TestTensor ShardOf(const TestTensor& table) {
  const runtime::World& world = TestWorld();
  const int64_t rows = table.type().shape.dim(0) / world.size();
  TestTensor shard({table.type().dtype, {rows, table.type().shape.dim(1)}});
  const int64_t bytes = shard.type().bytes();
  std::memcpy(shard.data(), table.as<char>() + world.rank() * bytes, static_cast<size_t>(bytes));
  return shard;
}

LossProblem::LossProblem(DType dtype, int64_t rows, int64_t vocabulary, int64_t width,
                         double spread)
    : x(NormalValues(dtype, {rows, width}, 1)),
      weight(NormalValues(dtype, {vocabulary, width}, 2,
                          spread / std::sqrt(static_cast<double>(width)))),
      targets({DType::kInt32, {rows}}),
      scale(Values(DType::kFloat32, {}, {0.125})),
      dloss(Values(graph::ComputeType(dtype), {}, {3})),
      acc(NormalValues(graph::ComputeType(dtype), {vocabulary, width}, 3)) {
  for (int64_t r = 0; r < rows; ++r) {
    targets.set(r, r % 5 == 3 ? -100 : static_cast<double>(r * 7919 % vocabulary));
  }
  targets.set(rows - 1, static_cast<double>(vocabulary - 1));
}

namespace {

int64_t Ranks() { return TestWorld().size(); }

// The sum over all ranks, each of which has one part, rounded to the parts' type.
TestTensor SumOverRanks(const TestTensor& part) {
  std::vector<double> sum(static_cast<size_t>(part.size()));
  for (int64_t i = 0; i < part.size(); ++i) sum[static_cast<size_t>(i)] = part.at(i);
  TestWorld().MakeCpuCommunicator()->AllReduce(sum.data(), sum.data(), part.size(), DType::kFloat64,
                                               Reduction::kSum, nullptr);
  return Values(part.type().dtype, part.type().shape, sum);
}

void ExpectSameBitsOnAllRanks(const TestTensor& tensor, const char* what) {
  const std::string_view bytes(tensor.as<char>(), static_cast<size_t>(tensor.type().bytes()));
  const std::vector<std::string> all = TestWorld().Gather(bytes);
  for (const std::string& other : all) EXPECT_TRUE(other == bytes) << what;
}

// `tolerance` is relative to the largest value.
void ExpectWithin(const TestTensor& got, const TestTensor& want, double tolerance,
                  const char* what) {
  ASSERT_EQ(got.type(), want.type()) << what;
  double largest = 0;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(want.at(i)));
  for (int64_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got.at(i), want.at(i), tolerance * largest) << what << " at " << i;
  }
}

class VocabularyParallel : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    bed_ = MakeOpBed(TestWorld());
    if (const std::string why = bed_->WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }

  // Allows for rounded intermediate values: logits' gradients, parts of dx, lse and, on a GPU,
  // logits in f16.
  static double Tolerance(DType dtype, double largest_logit) {
    if (dtype == DType::kFloat32) return 1e-6 * (10 + largest_logit);
    if (dtype == DType::kFloat16) return 0x1p-13 * (16 + largest_logit);
    return 0x1p-6;
  }

  // Compares the split ops with the whole one, with each other, and between ranks.
  void ExpectAgreement(const LossProblem& p, const TestTensor* acc = nullptr,
                       double largest_logit = 0) {
    const double tolerance =
        std::max(Tolerance(GetParam(), largest_logit), bed_->LossRounding(GetParam()));
    const graph::Attributes split = SplitByTensorAxis();
    const TestTensor weight = ShardOf(p.weight);
    const TestTensor acc_shard = acc != nullptr ? ShardOf(*acc) : TestTensor();
    const TestTensor* const own_acc = acc != nullptr ? &acc_shard : nullptr;

    const std::vector<TestTensor> train =
        bed_->Run("linear_cross_entropy_train",
                  {&p.x, &weight, &p.targets, &p.scale, &p.dloss, own_acc}, split);
    const std::vector<TestTensor> forward =
        bed_->Run("linear_cross_entropy", {&p.x, &weight, &p.targets, &p.scale}, split);
    const std::vector<TestTensor> backward =
        bed_->Run("linear_cross_entropy_backward",
                  {&p.x, &weight, &p.targets, &p.scale, &forward[1], &p.dloss, own_acc}, split);
    EXPECT_TRUE(SameBits(train[0], forward[0])) << "loss";
    EXPECT_TRUE(SameBits(train[1], backward[0])) << "dx";
    EXPECT_TRUE(SameBits(train[2], backward[1])) << "dweight";
    ExpectSameBitsOnAllRanks(train[0], "loss");
    ExpectSameBitsOnAllRanks(forward[1], "lse");

    const std::vector<TestTensor> whole = bed_->Run(
        "linear_cross_entropy_train", {&p.x, &p.weight, &p.targets, &p.scale, &p.dloss, acc}, {});
    const std::vector<TestTensor> lse =
        bed_->Run("linear_cross_entropy", {&p.x, &p.weight, &p.targets, &p.scale}, {});
    EXPECT_NEAR(train[0].at(0), whole[0].at(0), tolerance * std::max(1.0, whole[0].at(0)));
    ExpectWithin(forward[1], lse[1], tolerance, "lse");
    ExpectWithin(SumOverRanks(train[1]), whole[1], tolerance, "dx");
    ExpectWithin(train[2], ShardOf(whole[2]), tolerance, "dweight");
  }

  std::unique_ptr<OpBed> bed_;
};

TEST_P(VocabularyParallel, LossIsTheWholeVocabularys) {
  ExpectAgreement({GetParam(), 37, 23 * Ranks(), 9});
  ExpectAgreement({GetParam(), 1, Ranks(), 8, 0.5});
  const LossProblem p(GetParam(), 300, 520 * Ranks(), 40);
  ExpectAgreement(p, &p.acc);
}

TEST_P(VocabularyParallel, LossOfAnySizeIsRight) {
  // The largest logit is on another rank than the target's, larger by much or by little.
  ExpectAgreement({GetParam(), 200, 2 * Ranks(), 64, 60}, nullptr, 200);
  ExpectAgreement({GetParam(), 60, 70 * Ranks(), 64, 100}, nullptr, 400);
}

// The target's logit is between -300 and 300, while the others are of the order of 1.
TEST_P(VocabularyParallel, LossOfLikelyAndUnlikelyTargetsIsRight) {
  constexpr int64_t kRows = 50, kWidth = 64;
  LossProblem p(GetParam(), kRows, 175 * Ranks(), kWidth, 1);
  for (int64_t r = 0; r < kRows; ++r) {
    const auto target = static_cast<int64_t>(p.targets.at(r));
    if (target < 0) continue;
    double square = 0;
    for (int64_t k = 0; k < kWidth; ++k) square += std::pow(p.weight.at(target * kWidth + k), 2);
    for (int64_t k = 0; k < kWidth; ++k) {
      const double along = p.weight.at(target * kWidth + k) / square;
      p.x.set(r * kWidth + k, p.x.at(r * kWidth + k) + static_cast<double>(r * 12 - 300) * along);
    }
  }
  ExpectAgreement(p, nullptr, 300);
}

TEST_P(VocabularyParallel, IgnoredRowsCountNothing) {
  LossProblem p(GetParam(), 40, 30 * Ranks(), 24, 100);
  for (int64_t r = 0; r < 40; ++r) p.targets.set(r, -100);
  const TestTensor weight = ShardOf(p.weight);
  const std::vector<TestTensor> train =
      bed_->Run("linear_cross_entropy_train",
                {&p.x, &weight, &p.targets, &p.scale, &p.dloss, nullptr}, SplitByTensorAxis());
  for (const TestTensor& output : train) {
    for (int64_t i = 0; i < output.size(); ++i) ASSERT_EQ(output.at(i), 0);
  }
}

TEST_P(VocabularyParallel, EmbeddingIsTheSumOverRanks) {
  const int64_t own = 11, vocabulary = own * Ranks(), width = 40;
  const TestTensor table = NormalValues(GetParam(), {vocabulary, width}, 1);
  const TestTensor position = NormalValues(GetParam(), {12, width}, 2);
  const TestTensor first = Values(DType::kInt32, {1}, {3});
  TestTensor tokens({DType::kInt32, {3, 9}});
  for (int64_t i = 0; i < tokens.size(); ++i) {
    tokens.set(i, static_cast<double>(i * 7 % vocabulary));
  }
  const TestTensor shard = ShardOf(table);
  const double rounding = GetParam() == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
  for (const TestTensor* positions : {&position, static_cast<const TestTensor*>(nullptr)}) {
    const TestTensor* const from = positions != nullptr ? &first : nullptr;
    const TestTensor part =
        bed_->Run("embedding", {&tokens, &shard, positions, from}, SplitByTensorAxis())[0];
    const TestTensor whole = bed_->Run("embedding", {&tokens, &table, positions, from}, {})[0];
    ExpectWithin(SumOverRanks(part), whole, positions != nullptr ? rounding : 0, "embedding");
    for (int64_t i = 0; i < tokens.size(); ++i) {
      const bool elsewhere = static_cast<int64_t>(tokens.at(i)) / own != TestWorld().rank();
      if (!elsewhere || (positions != nullptr && TestWorld().rank() == 0)) continue;
      for (int64_t k = 0; k < width; ++k) ASSERT_EQ(part.at(i * width + k), 0) << i;
    }
  }
}

TEST_P(VocabularyParallel, TableGradientIsThatOfOwnTokens) {
  const int64_t own = 5, vocabulary = own * Ranks(), width = 24;
  const TestTensor dy = NormalValues(GetParam(), {4, 50, width}, 1);
  const TestTensor acc = NormalValues(graph::ComputeType(GetParam()), {vocabulary, width}, 2);
  TestTensor tokens({DType::kInt32, {4, 50}});
  for (int64_t i = 0; i < tokens.size(); ++i) {
    tokens.set(i, static_cast<double>(i * i % vocabulary));
  }
  const TestTensor acc_shard = ShardOf(acc);
  graph::Attributes split = SplitByTensorAxis();
  split.Set("rows", own);
  for (const bool adds : {false, true}) {
    const TestTensor got =
        bed_->Run("embedding_dw", {&tokens, &dy, adds ? &acc_shard : nullptr}, split)[0];
    const TestTensor whole =
        bed_->Run("embedding_dw", {&tokens, &dy, adds ? &acc : nullptr}, {{"rows", vocabulary}})[0];
    ExpectWithin(got, ShardOf(whole), 1e-6, "dweight");
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, VocabularyParallel,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

}  // namespace
}  // namespace plimsoll::ops
