// Which values count as saturated, zeroed and overflowed: what the conversion to codes makes of
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/float8.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

std::vector<double> Counts(const std::vector<double>& values, double scale, const char* dtype) {
  const TestTensor x = Values(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
  const TestTensor of = Values(DType::kFloat32, {}, {scale});
  const std::vector<TestTensor> counts =
      RunOp("count_codes", {&x, &of}, {{"dtype", std::string(dtype)}, {"weight", 0.5}}, 2, {true});
  return {counts[0].at(0), counts[0].at(1), counts[0].at(2)};
}

TEST(CountCodes, KnowsWhereTheTypesEnd) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      Counts({448, -463.9, 464, -1e6, 0x1p-10, 0x1.01p-10, 0, -1e-9, kInfinity, nan}, 1, "e4m3"),
      (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(Counts({57344, 61439, -61440, 0x1p-17, -0x1.01p-17, 0}, 1, "e5m2"),
            (std::vector<double>{0.5, 0.5, 0}));
  EXPECT_EQ(Counts({463 * 8, 464 * 8, -0x1p-7, 0x1p-8}, 8, "e4m3"),
            (std::vector<double>{0.5, 1, 0}));
}

// The ends are those of the conversion itself.
TEST(CountCodes, AgreesWithTheConversion) {
  EXPECT_EQ(ToFloat(ToE4M3(0x1p-10f)), 0);
  EXPECT_NE(ToFloat(ToE4M3(0x1.01p-10f)), 0);
  EXPECT_EQ(ToFloat(ToE5M2(0x1p-17f)), 0);
  EXPECT_NE(ToFloat(ToE5M2(0x1.01p-17f)), 0);
}

}  // namespace
}  // namespace plimsoll::ops
