#include "data/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace plimsoll::data {
namespace {

std::vector<float> Noise(int64_t rows, int64_t first, uint64_t seed, int64_t width = 100) {
  std::vector<float> numbers(static_cast<size_t>(rows * width));
  const graph::Slot slot = {.name = "noise",
                            .type = {graph::DType::kFloat32, {rows, width}},
                            .bytes = std::as_writable_bytes(std::span(numbers))};
  EXPECT_TRUE(IsNoise(slot));
  FillNoise(slot, first, seed);
  return numbers;
}

TEST(Noise, IsOfTheStandardNormalDistribution) {
  const std::vector<float> numbers = Noise(1000, 0, 1);
  const auto count = static_cast<double>(numbers.size());
  double sum = 0, squares = 0, beyond = 0;
  for (const float x : numbers) {
    sum += x;
    squares += static_cast<double>(x) * x;
    beyond += std::abs(x) > 1.96f;
  }
  EXPECT_NEAR(sum / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 4 * std::sqrt(2 / count));
  EXPECT_NEAR(beyond / count, 0.05, 4 * std::sqrt(0.05 / count));
}

TEST(Noise, FollowsFromSeedAndSample) {
  const std::vector<float> all = Noise(4, 6, 3), last = Noise(1, 9, 3);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), all.begin() + 300));
  EXPECT_NE(Noise(4, 6, 4), all);
  EXPECT_NE(Noise(4, 7, 3), all);
}

TEST(Noise, IsAMatrixOfFloats) {
  const auto is = [](const char* name, graph::DType dtype, graph::Shape shape) {
    return IsNoise({.name = name, .type = {dtype, std::move(shape)}, .bytes = {}});
  };
  EXPECT_FALSE(is("images", graph::DType::kFloat32, {2, 3}));
  EXPECT_FALSE(is("noise", graph::DType::kInt32, {2, 3}));
  EXPECT_FALSE(is("noise", graph::DType::kFloat32, {2, 3, 1}));
}

}  // namespace
}  // namespace plimsoll::data
