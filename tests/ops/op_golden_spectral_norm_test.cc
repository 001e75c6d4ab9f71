// Spectral normalization compared with PyTorch's parametrization. Vectors are float32.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/ops/op_golden.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr double kOfFloat32 = 1e-6;  // elements of unit vectors

void ExpectVector(const std::optional<HostTensor>& vector, const GoldenTensor& expected) {
  ASSERT_TRUE(vector);
  EXPECT_EQ(vector->type.dtype, DType::kFloat32);
  ASSERT_FALSE(expected.values.empty());
  ASSERT_EQ(vector->type.shape, expected.shape);
  for (int64_t i = 0; i < expected.shape.elements(); ++i) {
    EXPECT_NEAR(vector->value(i), expected.values[static_cast<size_t>(i)], kOfFloat32) << i;
  }
}

TEST_P(GoldenTest, SpectralNorm) {
  Golden golden = Read("spectral_norm");
  const HostTensor weight = Make(golden["weight"]);
  const HostTensor u = Make(golden["u"], DType::kFloat32), v = Make(golden["v"], DType::kFloat32);
  const Outputs forward = Call("spectral_norm", {}, {weight, u, v});
  ExpectNear(forward[0], golden["y"]);
  ExpectNear(Call("spectral_norm_backward", {}, {weight, u, v, forward[1], Make(golden["dy"])})[0],
             golden["dweight"]);
}

TEST_P(GoldenTest, PowerIteration) {
  Golden golden = Read("power_iteration");
  std::optional<HostTensor> v = Make(golden["v.0"], DType::kFloat32);
  for (const std::string step : {".1", ".2"}) {
    SCOPED_TRACE(step);
    const HostTensor weight = Make(golden["weight" + step]);
    const Outputs vectors = Call("power_iteration", {}, {weight, v});
    ExpectVector(vectors[0], golden["u" + step]);
    ExpectVector(vectors[1], golden["v" + step]);
    const std::optional<HostTensor> y =
        Call("spectral_norm", {}, {weight, vectors[0], vectors[1]})[0];
    for (int64_t i = 0; i < y->type.shape.elements(); ++i) {
      EXPECT_NEAR(y->value(i), golden["y" + step].values.at(static_cast<size_t>(i)), kOfFloat32);
    }
    v = vectors[1];
  }
}

}  // namespace
}  // namespace plimsoll::ops
