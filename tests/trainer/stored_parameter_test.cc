#include "trainer/step/stored_parameter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/low_precision.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;

// Floats of all magnitudes and signs, including zeros, subnormals and infinities; no NaN.
std::vector<float> Values() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               65504.0f,
                               1e30f,
                               0x1p-149f,
                               -0x1.8p-130f,
                               1e-40f,
                               3e38f,
                               std::numeric_limits<float>::infinity()};
  std::mt19937 random(7);
  while (values.size() < 10000) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (value == value) values.push_back(value);
  }
  return values;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST(StoredParameter, Bf16WithARemainderHoldsFloat32Exactly) {
  const std::vector<float> values = Values();
  std::vector<uint16_t> low(values.size());
  std::vector<int16_t> remainder(values.size());
  const StoredParameter stored(DType::kBFloat16, values.size(), low.data(), remainder.data(),
                               nullptr);
  EXPECT_TRUE(stored.InPlace().empty());
  stored.Set(values);
  std::vector<float> back(values.size());
  stored.Get(back);
  ExpectSameBits(back, values);
  for (size_t i = 0; i < values.size(); ++i) {
    // Rounded to nearest; ties go up in magnitude instead of to even.
    const float error = std::fabs(FromBf16(low[i]) - values[i]);
    if (std::isfinite(FromBf16(low[i]))) {
      EXPECT_LE(error, std::fabs(FromBf16(ToBf16(values[i])) - values[i])) << values[i];
    }
  }
}

TEST(StoredParameter, AMasterHoldsFloat32BesideItsRounding) {
  const std::vector<float> values = Values();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<uint16_t> low(values.size());
    std::vector<float> master(values.size()), back(values.size());
    const StoredParameter stored(dtype, values.size(), low.data(), nullptr, master.data());
    stored.Set(values);
    stored.Get(back);
    ExpectSameBits(back, values);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(low[i], dtype == DType::kFloat16 ? ToF16(values[i]) : ToBf16(values[i]));
    }
  }
}

TEST(StoredParameter, AloneItIsRounded) {
  const std::vector<float> values = Values();
  std::vector<uint16_t> low(values.size());
  std::vector<float> back(values.size());
  const StoredParameter stored(DType::kBFloat16, values.size(), low.data(), nullptr, nullptr);
  stored.Set(values);
  stored.Get(back);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back[i], FromBf16(ToBf16(values[i])));
}

TEST(StoredParameter, Float32LiesInPlace) {
  const std::vector<float> values = Values();
  std::vector<float> data(values.size()), back(values.size());
  const StoredParameter stored(DType::kFloat32, values.size(), data.data(), nullptr, nullptr);
  EXPECT_EQ(stored.InPlace().data(), data.data());
  stored.Set(values);
  ExpectSameBits(data, values);
  stored.Get(back);
  ExpectSameBits(back, values);
}

}  // namespace
}  // namespace plimsoll::trainer
