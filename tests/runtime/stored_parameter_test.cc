#include "runtime/stored_parameter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/low_precision.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;

// Floats of all magnitudes and signs, including zeros, subnormals and infinities; no NaN.
std::vector<float> AllFloats() {
  std::vector<float> values = {
      0.0f,      -0.0f,        1.0f,      -1.0f,  65504.0f, 1e30f,
      0x1p-149f, -0x1.8p-130f, 0x1.01p0f, 1e-40f, 3e38f,    std::numeric_limits<float>::infinity()};
  std::mt19937 random(7);
  while (values.size() < 10000) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (value == value) values.push_back(value);
  }
  return values;
}

// A parameter in these vectors, which may be empty.
template <typename T>
StoredParameter In(DType dtype, std::vector<T>& data, std::vector<int16_t>* remainder = nullptr,
                   std::vector<float>* master = nullptr) {
  return {.dtype = dtype,
          .elements = static_cast<int64_t>(data.size()),
          .data = reinterpret_cast<std::byte*>(data.data()),
          .remainder = remainder == nullptr ? nullptr : remainder->data(),
          .master = master == nullptr ? nullptr : master->data(),
          .has_remainder = remainder != nullptr};
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST(StoredParameter, Bf16WithARemainderHoldsFloat32Exactly) {
  const std::vector<float> values = AllFloats();
  std::vector<uint16_t> low(values.size());
  std::vector<int16_t> remainder(values.size());
  const StoredParameter stored = In(DType::kBFloat16, low, &remainder);
  EXPECT_TRUE(stored.InPlace().empty());
  stored.Set(TypedElements::Of(values));
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
  const std::vector<float> values = AllFloats();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<uint16_t> low(values.size());
    std::vector<float> master(values.size()), back(values.size());
    const StoredParameter stored = In(dtype, low, nullptr, &master);
    stored.Set(TypedElements::Of(values));
    stored.Get(back);
    ExpectSameBits(back, values);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(low[i], dtype == DType::kFloat16 ? ToF16(values[i]) : ToBf16(values[i]));
    }
  }
}

TEST(StoredParameter, AloneItIsRounded) {
  const std::vector<float> values = AllFloats();
  std::vector<uint16_t> low(values.size());
  std::vector<float> back(values.size());
  const StoredParameter stored = In(DType::kBFloat16, low);
  stored.Set(TypedElements::Of(values));
  stored.Get(back);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back[i], FromBf16(ToBf16(values[i])));
}

TEST(StoredParameter, Float32LiesInPlace) {
  const std::vector<float> values = AllFloats();
  std::vector<float> data(values.size()), back(values.size());
  const StoredParameter stored = In(DType::kFloat32, data);
  EXPECT_EQ(stored.InPlace().data(), data.data());
  stored.Set(TypedElements::Of(values));
  ExpectSameBits(data, values);
  stored.Get(back);
  ExpectSameBits(back, values);
}

TEST(StoredParameter, TakesValuesOfAnyTypeAtAnyAddress) {
  const std::vector<float> values = AllFloats();
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<std::byte> bytes(values.size() * 2 + 1);
    std::vector<float> exact;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t low = dtype == DType::kBFloat16 ? ToBf16(values[i]) : ToF16(values[i]);
      std::memcpy(&bytes[2 * i + 1], &low, 2);
      exact.push_back(dtype == DType::kBFloat16 ? FromBf16(low) : FromF16(low));
    }
    std::vector<float> data(values.size());
    In(DType::kFloat32, data).Set({dtype, &bytes[1], static_cast<int64_t>(values.size())});
    ExpectSameBits(data, exact);
  }
}

TEST(StoredParameter, RoundsAsWithItsRemainderWhereThatLiesElsewhere) {
  const std::vector<float> values = AllFloats();
  std::vector<uint16_t> low(values.size()), high(values.size());
  std::vector<int16_t> remainder(values.size());
  In(DType::kBFloat16, low, &remainder).Set(TypedElements::Of(values));
  StoredParameter elsewhere = In(DType::kBFloat16, high, &remainder);
  elsewhere.remainder = nullptr;
  elsewhere.Set(TypedElements::Of(values));
  EXPECT_EQ(high, low);
  In(DType::kBFloat16, high).Set(TypedElements::Of(values));
  EXPECT_NE(high, low) << "no ties";
}

TEST(StoredParameter, IsDrawnAsItIsSet) {
  const InitialDraws draws{InitialDraws::Kind::kNormal, 0.02f, 3, StreamOf("a.weight")};
  constexpr size_t kSome = 10007;
  constexpr int64_t kFirst = 41;
  std::vector<float> values(kSome);
  plimsoll::Draw(draws, kFirst, values);
  std::vector<float> data(kSome), master(kSome);
  std::vector<uint16_t> drawn(kSome), set(kSome);
  std::vector<int16_t> remainder(kSome), set_remainder(kSome);
  In(DType::kFloat32, data).Draw(draws, kFirst);
  ExpectSameBits(data, values);
  In(DType::kBFloat16, drawn, &remainder).Draw(draws, kFirst);
  In(DType::kBFloat16, set, &set_remainder).Set(TypedElements::Of(values));
  EXPECT_EQ(drawn, set);
  EXPECT_EQ(remainder, set_remainder);
  In(DType::kFloat16, drawn, nullptr, &master).Draw(draws, kFirst);
  In(DType::kFloat16, set).Set(TypedElements::Of(values));
  EXPECT_EQ(drawn, set);
  ExpectSameBits(master, values);
}

}  // namespace
}  // namespace plimsoll::runtime
