// qk_norm is an rms_norm of each query and key head, and its gradient is theirs; value heads stay
// as they are.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/ops/expect_tensor.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

// 3 query heads, 2 key heads and 2 value heads of 12; 40 tokens, in several chunks of partial sums.
constexpr int64_t kQueries = 3, kKeys = 2, kWidth = 12, kTokens = 40;
constexpr int64_t kRow = (kQueries + 2 * kKeys) * kWidth;

Attributes With(Attributes attributes, bool unit_offset) {
  if (unit_offset) attributes.Set("unit_offset", true);
  return attributes;
}

// `count` heads of each token, from head `first` on: [40 · count, 12].
TestTensor HeadsOf(const TestTensor& packed, int64_t first, int64_t count) {
  TestTensor heads({packed.type().dtype, {kTokens * count, kWidth}});
  for (int64_t i = 0; i < heads.size(); ++i) {
    const int64_t token = i / (count * kWidth), within = i % (count * kWidth);
    heads.set(i, packed.at(token * kRow + first * kWidth + within));
  }
  return heads;
}

void ExpectAnRmsNormOfEachHead(bool unit_offset) {
  const Attributes heads =
      With({{"heads", kQueries}, {"kv_heads", kKeys}, {"eps", 1e-5}}, unit_offset);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    const TestTensor qkv = NormalValues(dtype, {2, kTokens / 2, kRow}, 1);
    const TestTensor dy = NormalValues(dtype, {2, kTokens / 2, kRow}, 2);
    const std::vector<TestTensor> weights = {NormalValues(dtype, {kWidth}, 3),
                                             NormalValues(dtype, {kWidth}, 4)};
    const auto got = RunOp("qk_norm", {&qkv, &weights[0], &weights[1]}, heads);
    const auto gradients =
        RunOp("qk_norm_backward", {&qkv, &weights[0], &weights[1], &got[1], &dy, nullptr, nullptr},
              heads);
    for (const bool keys : {false, true}) {
      const int64_t first = keys ? kQueries : 0, count = keys ? kKeys : kQueries;
      const TestTensor x = HeadsOf(qkv, first, count), dhead = HeadsOf(dy, first, count);
      const TestTensor& weight = weights[keys ? 1 : 0];
      const auto want = RunOp("rms_norm", {&x, &weight}, With({{"eps", 1e-5}}, unit_offset));
      EXPECT_TRUE(SameBits(HeadsOf(got[0], first, count), want[0]));
      const auto back =
          RunOp("rms_norm_backward", {&x, &weight, &want[1], &dhead, nullptr, nullptr},
                With({}, unit_offset));
      EXPECT_TRUE(SameBits(HeadsOf(gradients[0], first, count), back[0]));
      std::vector<double> dweight;
      for (int64_t i = 0; i < kWidth; ++i) dweight.push_back(back[1].at(i));
      ExpectNear(gradients[keys ? 2 : 1], dweight, 1e-4, "dweight");
    }
    const int64_t values = kQueries + kKeys;
    EXPECT_TRUE(SameBits(HeadsOf(got[0], values, kKeys), HeadsOf(qkv, values, kKeys)));
    EXPECT_TRUE(SameBits(HeadsOf(gradients[0], values, kKeys), HeadsOf(dy, values, kKeys)));
  }
}

TEST(QkNorm, IsAnRmsNormOfEachHead) { ExpectAnRmsNormOfEachHead(/*unit_offset=*/false); }
TEST(QkNorm, IsOneWithAUnitOffset) { ExpectAnRmsNormOfEachHead(/*unit_offset=*/true); }

}  // namespace
}  // namespace plimsoll::ops
