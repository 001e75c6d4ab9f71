#include "tests/ops/op_golden.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace plimsoll::ops {

using graph::Attributes;
using graph::DType;

Golden GoldenTest::Read(const std::string& name) {
  std::ifstream in("tests/ops/testdata/" + name + ".txt");
  Golden golden;
  std::string header, values;
  while (std::getline(in, header) && std::getline(in, values)) {
    std::istringstream words(header), numbers(values);
    std::string tensor_name;
    words >> tensor_name;
    const std::vector<int64_t> dims(std::istream_iterator<int64_t>(words), {});
    GoldenTensor tensor{graph::Shape(dims), {}};
    tensor.values.assign(std::istream_iterator<double>(numbers), {});
    EXPECT_EQ(static_cast<int64_t>(tensor.values.size()), tensor.shape.elements()) << tensor_name;
    golden[tensor_name] = std::move(tensor);
  }
  EXPECT_FALSE(golden.empty()) << name;
  return golden;
}

HostTensor GoldenTest::Make(const GoldenTensor& golden, DType dtype) {
  HostTensor tensor = PoisonedTensor({dtype, golden.shape});
  for (size_t i = 0; i < golden.values.size(); ++i) tensor.set(i, golden.values[i]);
  return tensor;
}

HostTensor GoldenTest::Scalar(DType dtype, double value) {
  HostTensor tensor = PoisonedTensor({dtype, {}});
  tensor.set(0, value);
  return tensor;
}

Outputs GoldenTest::Call(std::string_view op, const Attributes& attributes, const Outputs& inputs) {
  return RunKernel(
      {.op = graph::OpRegistry::Get().Require(op), .attributes = attributes, .inputs = inputs},
      pool_);
}

void GoldenTest::ExpectNear(const std::optional<HostTensor>& actual, const GoldenTensor& expected,
                            double float_tolerance) const {
  ASSERT_TRUE(actual);
  ASSERT_FALSE(expected.values.empty());
  ASSERT_EQ(actual->type.shape.elements(), static_cast<int64_t>(expected.values.size()));
  const double tolerance = GetParam() == DType::kFloat64 ? 1e-12 : float_tolerance;
  double largest = 1;
  for (double v : expected.values) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    EXPECT_NEAR(actual->value(i), expected.values[i], tolerance * largest) << "element " << i;
  }
}

void GoldenTest::CheckUnary(const std::string& file, const std::string& op,
                            const Attributes& attributes) {
  Golden golden = Read(file);
  const HostTensor x = Make(golden["x"]);
  ExpectNear(Call(op, attributes, {x})[0], golden["y"]);
  ExpectNear(Call(op + "_backward", attributes, {x, Make(golden["dy"])})[0], golden["dx"]);
}

void GoldenTest::CheckByResult(const std::string& op, const Attributes& attributes) {
  Golden golden = Read(op);
  const std::optional<HostTensor> y = Call(op, attributes, {Make(golden["x"])})[0];
  ExpectNear(y, golden["y"]);
  ExpectNear(Call(op + "_backward", attributes, {y, Make(golden["dy"])})[0], golden["dx"]);
}

}  // namespace plimsoll::ops
