// For tests that compare ops with PyTorch: testdata/*.txt, made by make_op_golden.py.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "graph/op.h"
#include "tests/ops/guarded_call.h"

namespace plimsoll::ops {

struct GoldenTensor {
  graph::Shape shape;
  std::vector<double> values;
};
// By name. A name that the file lacks gives a tensor without values, which no comparison accepts.
using Golden = std::map<std::string, GoldenTensor>;

using Outputs = std::vector<std::optional<HostTensor>>;

// Runs CPU kernels in one type, float32 or float64. Instantiated in op_golden_test.cc, for the
// tests of all files.
class GoldenTest : public testing::TestWithParam<graph::DType> {
 protected:
  // testdata/NAME.txt.
  static Golden Read(const std::string& name);

  HostTensor Make(const GoldenTensor& golden) const { return Make(golden, GetParam()); }
  static HostTensor Make(const GoldenTensor& golden, graph::DType dtype);
  static HostTensor Scalar(graph::DType dtype, double value);

  Outputs Call(std::string_view op, const graph::Attributes& attributes, const Outputs& inputs);

  // Double kernels agree up to rounding (1e-12), float kernels up to a few units in the last place
  // of the largest value. Shapes may differ, the number of elements may not.
  void ExpectNear(const std::optional<HostTensor>& actual, const GoldenTensor& expected,
                  double float_tolerance = 1e-6) const;

  // Checks y and dx of an elementwise op and its backward op, which reads x.
  void CheckUnary(const std::string& file, const std::string& op,
                  const graph::Attributes& attributes);
  // The same where the backward op reads y.
  void CheckByResult(const std::string& op, const graph::Attributes& attributes = {});

 private:
  ThreadPool pool_{2};
};

}  // namespace plimsoll::ops
