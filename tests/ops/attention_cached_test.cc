// Cached attention, window by window, compared with attention over the whole text.
#include "ops/attention/attention_cached.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

constexpr int64_t kRows = 2, kLength = 23, kCapacity = 31, kHead = 12;

struct Case {
  DType dtype;
  int64_t heads, kv_heads;
  double tolerance;  // a few units in the last place: both round once, from different sums
  int64_t window = 0;
  double scale = 0;    // 0: 1/√head
  double softcap = 0;  // 0: none
};

class CachedAttentionTest : public testing::TestWithParam<Case> {
 protected:
  int64_t stride() const { return (GetParam().heads + 2 * GetParam().kv_heads) * kHead; }
  int64_t width() const { return GetParam().heads * kHead; }
  int64_t bytes() const { return graph::ByteSize(GetParam().dtype); }

  // Positions [first, first + count) of each row of x[R,T,columns].
  TestTensor Window(const TestTensor& x, int64_t first, int64_t count) const {
    const int64_t columns = x.type().shape.dim(2);
    TestTensor window({x.type().dtype, {kRows, count, columns}});
    for (int64_t r = 0; r < kRows; ++r) {
      std::memcpy(window.as<char>() + r * count * columns * bytes(),
                  x.as<char>() + (r * kLength + first) * columns * bytes(),
                  count * columns * bytes());
    }
    return window;
  }
};

TEST_P(CachedAttentionTest, WindowsGiveWhatTheWholeTextGives) {
  const auto [dtype, heads, kv_heads, tolerance, window_size, scale, softcap] = GetParam();
  Attributes cached{{"heads", heads}, {"kv_heads", kv_heads}};
  if (window_size > 0) cached.Set("window", window_size);
  if (scale > 0) cached.Set("scale", scale);
  if (softcap > 0) cached.Set("softcap", softcap);
  const TestTensor qkv = NormalValues(dtype, {kRows, kLength, stride()}, 1);
  Attributes at_once = cached;
  at_once.Set("causal", true);
  at_once.Set("dropout", 0.0);
  at_once.Set("key", int64_t{0});
  const TestTensor whole = RunOp("attention", {&qkv, nullptr}, at_once)[0];

  // Positions that are not written yet must not be read: NaN would show.
  const graph::TensorType type = CacheType(qkv.type(), heads, kv_heads, kCapacity);
  TestTensor keys(type), values(type);
  std::memset(keys.data(), 0xff, type.bytes());
  std::memset(values.data(), 0xff, type.bytes());
  int64_t first = 0;
  for (const int64_t count : {8, 1, 1, 5, 1, 7}) {
    const TestTensor window = Window(qkv, first, count);
    const TestTensor position = Values(DType::kInt32, {1}, {static_cast<double>(first)});
    OpRunner runner("attention_cached", {&window, &keys, &values, &position}, cached, 2);
    runner.Share(1, keys);
    runner.Share(2, values);
    runner.Run();
    const TestTensor expected = Window(whole, first, count);
    for (int64_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(runner.output(0).at(i), expected.at(i), tolerance)
          << count << " tokens from " << first << ", element " << i;
    }
    first += count;
  }
  EXPECT_EQ(first, kLength);
}

INSTANTIATE_TEST_SUITE_P(
    Types, CachedAttentionTest,
    testing::Values(Case{DType::kFloat64, 4, 4, 1e-12}, Case{DType::kFloat64, 6, 2, 1e-12},
                    Case{DType::kFloat32, 4, 1, 2e-6}, Case{DType::kFloat64, 6, 2, 1e-12, 5},
                    Case{DType::kFloat64, 4, 4, 1e-12, 1}, Case{DType::kFloat32, 4, 1, 2e-6, 11},
                    Case{DType::kFloat64, 6, 2, 1e-12, 5, 0.4, 0.9},
                    Case{DType::kFloat32, 4, 1, 2e-6, 0, 0, 2}));

TEST(CachedAttention, RefusesPositionsOutsideTheCache) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 3, 12}, 1);
  const TestTensor cache = NormalValues(DType::kFloat32, {1, 1, 8, 4}, 2);
  for (const double first : {-1.0, 6.0}) {
    const TestTensor position = Values(DType::kInt32, {1}, {first});
    EXPECT_THROW(RunOp("attention_cached", {&qkv, &cache, &cache, &position},
                       {{"heads", int64_t{1}}, {"kv_heads", int64_t{1}}}),
                 InternalError);
  }
}

}  // namespace
}  // namespace plimsoll::ops
