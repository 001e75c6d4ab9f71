// Every op, by its examples and in all its types: shapes, guarded memory, threads, in-place pairs,
// optional outputs, narrower types against double, gradients against finite differences, random
// draws. An op without an example or without a CPU kernel fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "graph/gradient.h"
#include "ops/kernel.h"
#include "tests/ops/example_test.h"
#include "tests/ops/op_gradient.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::OpDef;
using graph::OpRegistry;

ThreadPool& Pool(int threads) {
  static ThreadPool one(1), two(2), three(3);
  return threads == 1 ? one : threads == 2 ? two : three;
}

TEST(Registry, EveryOpHasAnExampleAndAKernel) {
  std::set<std::string> with_example;
  for (const Example& example : Examples()) {
    EXPECT_NE(OpRegistry::Get().Find(example.op), nullptr) << "no op " << example.op;
    with_example.insert(example.op);
  }
  for (const OpDef* op : OpRegistry::Get().All()) {
    EXPECT_TRUE(with_example.contains(op->name)) << op->name << " has no example";
    if (!op->view) {
      EXPECT_NE(FindCpuKernel(op->name), nullptr) << op->name << " has no CPU kernel";
    }
  }
}

class OpTest : public ExampleTest {
 protected:
  const std::vector<DType>& dtypes() const { return example().dtypes; }
  bool Serves(DType dtype) const {
    return std::find(dtypes().begin(), dtypes().end(), dtype) != dtypes().end();
  }

  void CheckDraws(DType dtype) const;
};

Outputs RunOnTwoThreads(const GuardedCall& call) { return RunKernel(call, Pool(2)); }

TEST_P(OpTest, InfersItsOutputs) {
  for (DType dtype : dtypes()) {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    const auto types = InferTypes(Call(inputs));
    ASSERT_LE(types.size(), op().outputs.size());
    for (size_t i = types.size(); i < op().outputs.size(); ++i) {
      EXPECT_TRUE(op().outputs[i].optional) << op().outputs[i].name;
    }
    std::vector<const graph::TensorType*> in, out;
    for (const auto& input : inputs) in.push_back(input ? &input->type : nullptr);
    for (const auto& type : types) out.push_back(&type);
    const graph::Cost cost = graph::CostOf({op(), in, out, example().attributes});
    EXPECT_TRUE(std::isfinite(cost.flops) && cost.flops >= 0);
    EXPECT_TRUE(std::isfinite(cost.bytes) && (op().view || cost.bytes > 0));
  }
}

// RunKernel itself checks guards, unchanged inputs and allocations.
TEST_P(OpTest, GivesTheSameBitsOnAnyNumberOfThreads) {
  if (op().view) return;
  for (DType dtype : dtypes()) {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    const Outputs expected = RunKernel(Call(inputs), Pool(1));
    for (const auto& output : expected) {
      if (!graph::IsFloat(output->type.dtype)) continue;
      for (int64_t i = 0; i < output->type.shape.elements(); ++i) {
        ASSERT_TRUE(std::isfinite(output->value(i))) << "element " << i << " was not written";
      }
    }
    for (int threads : {1, 2, 3})
      EXPECT_EQ(RunKernel(Call(inputs), Pool(threads)), expected) << threads;
  }
}

TEST_P(OpTest, GivesTheSameBitsInPlace) {
  for (DType dtype : dtypes()) ExpectSameBitsInPlace(dtype, &RunOnTwoThreads);
}

TEST_P(OpTest, OptionalOutputsDoNotMatterToTheOthers) {
  for (DType dtype : dtypes()) ExpectSameBitsWithoutOptionalOutputs(dtype, &RunOnTwoThreads);
}

TEST_P(OpTest, FindsTheLargestMagnitudesOfItsResults) {
  for (DType dtype : dtypes()) ExpectLargestOfResults(dtype, &RunOnTwoThreads);
}

void ExpectAgree(const HostTensor& narrow, const HostTensor& wide, double tolerance) {
  const double allowed = tolerance * Largest(wide);
  for (int64_t i = 0; i < wide.type.shape.elements(); ++i) {
    ASSERT_NEAR(narrow.value(i), wide.value(i), allowed) << "element " << i;
  }
}

TEST_P(OpTest, FloatAgreesWithDouble) {
  if (op().view || !Serves(DType::kFloat32) || !Serves(DType::kFloat64)) return;
  const Outputs inputs = MakeInputs(example(), DType::kFloat32);
  const Outputs narrow = RunKernel(Call(inputs), Pool(2));
  const Outputs wide = RunKernel(Call(Widen(example(), inputs)), Pool(2));
  for (size_t k = 0; k < narrow.size(); ++k) {
    SCOPED_TRACE("output " + std::to_string(k));
    ExpectAgree(*narrow[k], *wide[k], example().float32_tolerance);
  }
}

// Computed in float32 from exact operands, and rounded once if the result is stored in 16 bits.
TEST_P(OpTest, LowPrecisionAgreesWithDouble) {
  if (op().view || !Serves(DType::kFloat64)) return;
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    if (!Serves(dtype)) continue;
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    const Outputs narrow = RunKernel(Call(inputs), Pool(2));
    const Outputs wide = RunKernel(Call(Widen(example(), inputs)), Pool(2));
    for (size_t k = 0; k < narrow.size(); ++k) {
      SCOPED_TRACE("output " + std::to_string(k));
      const double tolerance = Rounding(narrow[k]->type.dtype) +
                               example().low_precision_tolerance * Rounding(dtype) +
                               example().float32_tolerance;
      ExpectAgree(*narrow[k], *wide[k], tolerance);
    }
  }
}

// The rule emits nodes of matching types, and they compute the same gradient.
TEST_P(OpTest, LowPrecisionGradientAgreesWithDouble) {
  if (!Serves(DType::kFloat64)) return;
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    if (!Serves(dtype)) continue;
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    OpGradient narrow(example(), Pool(1), inputs);
    OpGradient wide(example(), Pool(1), Widen(example(), inputs));
    auto gradients = narrow.Analytic(narrow.inputs());
    auto expected = wide.Analytic(wide.inputs());
    for (size_t i : narrow.inputs()) {
      ASSERT_EQ(gradients[i].has_value(), expected[i].has_value()) << "input " << i;
      if (!gradients[i]) continue;
      double largest = 1;
      for (double value : *expected[i]) largest = std::max(largest, std::fabs(value));
      // A rule may round several times: saved results of the forward op, and intermediate products.
      const double tolerance = (4 + example().low_precision_tolerance) * Rounding(dtype) * largest;
      for (size_t k = 0; k < expected[i]->size(); ++k) {
        ASSERT_NEAR((*gradients[i])[k], (*expected[i])[k], tolerance)
            << "input " << i << " element " << k;
      }
    }
  }
}

TEST_P(OpTest, GradientAgreesWithFiniteDifferences) {
  if (!Serves(DType::kFloat64)) return;
  OpGradient gradient(example(), Pool(1));
  for (size_t i : gradient.inputs()) {
    const auto analytic = gradient.Analytic({i})[i];
    if (!analytic && gradient.IsScalarByDefinition(i)) continue;  // constant for the rule
    const int64_t elements = example().inputs[i].shape.elements();
    const HostTensor signs = RandomTensor({DType::kFloat64, {elements}}, 7);
    std::vector<double> direction;
    for (int64_t k = 0; k < elements; ++k) direction.push_back(signs.value(k) < 0 ? -1 : 1);
    const double whole = gradient.Numeric(i, direction);
    if (!analytic) {
      EXPECT_EQ(whole, 0) << "no gradient for input " << i << ", on which the result depends";
      continue;
    }
    // Checks each element, or some of a large input. Then all elements at once along random signs,
    // where an error in any element shows.
    const size_t n = analytic->size();
    for (size_t sample = 0; sample < std::min<size_t>(n, 150); ++sample) {
      const size_t k = n <= 150 ? sample : (sample * 7919 + 13) % n;
      std::vector<double> only(n, 0);
      only[k] = 1;
      const double numeric = gradient.Numeric(i, only);
      ASSERT_NEAR((*analytic)[k], numeric, example().tolerance * (1 + std::fabs(numeric)))
          << "input " << i << " element " << k;
    }
    double expected = 0, scale = 1;
    for (size_t k = 0; k < n; ++k) {
      expected += (*analytic)[k] * direction[k];
      scale += std::fabs((*analytic)[k]);
    }
    EXPECT_NEAR(expected, whole, example().tolerance * scale) << "input " << i << " as a whole";
  }
}

TEST_P(OpTest, GradientEmitsOnlyWhatIsWanted) {
  if (!Serves(DType::kFloat64)) return;
  OpGradient gradient(example(), Pool(1));
  const std::vector<size_t> inputs = gradient.inputs();
  auto all = gradient.Analytic(inputs);
  EXPECT_EQ(gradient.Unused(), "") << "with all gradients wanted";
  for (size_t wanted : inputs) {
    auto one = gradient.Analytic({wanted});
    EXPECT_EQ(gradient.Unused(), "") << "with only input " << wanted << " wanted";
    for (size_t i : inputs) {
      if (i == wanted) {
        EXPECT_EQ(one[i], all[i]) << "input " << i << " alone has other bits";
      } else {
        EXPECT_FALSE(one[i]) << "gradient for input " << i << ", not wanted";
      }
    }
  }
  if (!inputs.empty()) {
    gradient.Analytic({});
    EXPECT_EQ(gradient.emitted(), 0u) << "nodes emitted though nothing is wanted";
  }
}

TEST_P(OpTest, GradientIncludesThePartialSumItTakes) {
  if (!Serves(DType::kFloat64)) return;
  OpGradient gradient(example(), Pool(1));
  auto plain = gradient.Analytic(gradient.inputs());
  auto summed = gradient.Analytic(gradient.inputs(), /*with_partials=*/true);
  for (size_t i : gradient.inputs()) {
    if (!summed[i]) continue;
    for (size_t k = 0; k < summed[i]->size(); ++k) {
      const double expected = (*plain[i])[k] + (gradient.taken(i) ? gradient.partial(i, k) : 0);
      ASSERT_NEAR((*summed[i])[k], expected, 1e-11 * (1 + std::fabs(expected)))
          << "input " << i << " element " << k;
    }
  }
}

void OpTest::CheckDraws(DType dtype) const {
  SCOPED_TRACE(graph::Name(dtype));
  size_t rng = 0;
  while (op().inputs[rng].name != "rng") ++rng;
  graph::Attributes attributes = example().attributes;
  Outputs inputs = MakeInputs(example(), dtype);
  if (rng >= inputs.size() || !inputs[rng]) return;
  // What is added to nothing is rounded to the nearest.
  for (const graph::InPlacePair& low : op().low_gradients) {
    if (attributes.Has("low_gradient") && !inputs[static_cast<size_t>(low.input)]) return;
  }
  for (const char* probability : {"p", "dropout"}) {
    if (attributes.Has(probability) && attributes.GetReal(probability) == 0) return;
  }
  const GuardedCall call{.op = op(), .attributes = attributes, .inputs = inputs};
  const Outputs expected = RunKernel(call, Pool(2));
  EXPECT_EQ(RunKernel(call, Pool(3)), expected);
  attributes.Set("key", attributes.GetInt("key") + 1);
  EXPECT_NE(RunKernel(call, Pool(2)), expected) << "another key, the same draws";
  attributes = example().attributes;
  for (int64_t part : {0, 1}) {
    inputs = MakeInputs(example(), dtype);
    inputs[rng]->set(part, inputs[rng]->value(part) + 1);
    EXPECT_NE(RunKernel(call, Pool(2)), expected) << "another rng, the same draws";
  }
}

TEST_P(OpTest, DrawsDependOnKeyAndRngAlone) {
  if (!op().random) return;
  for (DType dtype : dtypes()) CheckDraws(dtype);
}

INSTANTIATE_TEST_SUITE_P(Examples, OpTest, testing::ValuesIn(Examples()), ExampleName);

}  // namespace
}  // namespace plimsoll::ops
