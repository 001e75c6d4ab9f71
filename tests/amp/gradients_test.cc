// Losses and gradients of whole models under mixed precision, run by an interpreter without memory
// planning.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "amp/mixed_precision.h"
#include "base/low_precision.h"
#include "graph/autodiff.h"
#include "models/model.h"
#include "tests/models/published.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::amp {
namespace {

using graph::DType;
using graph::Program;
using graph::Role;
using graph::Tensor;
using Results = std::map<std::string, std::vector<double>>;

constexpr int64_t kBatch = 3, kSequence = 16, kVocabulary = 96;

models::ModelSpec Spec(bool gpt2) {
  models::ModelSpec spec =
      gpt2 ? models::Gpt2Spec(2, 32, 2, kVocabulary, kSequence)
           : models::LlamaSpec({2, 32, 2, 1, 16, 80, kVocabulary, kSequence, false});
  if (gpt2) spec.dropout = 0.1;
  return spec;
}

// The same values for a tensor in every program, and exact in bf16, so that all types start from
// the same weights; in fp16 values below 6e-5 are rounded.
std::vector<double> InitialValues(const Tensor& tensor) {
  const int64_t n = tensor.type.shape.elements();
  if (tensor.name == "token_weight") return {1.0 / (kBatch * kSequence)};
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
  const bool norm = tensor.type.shape.rank() == 1 && tensor.name.ends_with("weight");
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    if (tensor.type.dtype == DType::kInt32) {
      values.push_back(static_cast<double>(random() % kVocabulary));
    } else {
      const double value = (norm ? 1 : 0) + std::normal_distribution<double>(0, 0.05)(random);
      values.push_back(FromBf16(ToBf16(static_cast<float>(value))));
    }
  }
  return values;
}

// The loss ("loss") and all gradients, for a scale of the loss.
Results LossAndGradients(bool gpt2, const AmpOptions& options, double loss_scale = 1) {
  Program program("train");
  graph::Builder builder(program);
  const auto model = models::MakeModel(Spec(gpt2));
  const auto outputs = model->Build(builder, {kBatch, kSequence}, models::Head::kLoss, true);
  program.Rename(outputs.loss, "loss");
  MixedPrecision(options).Run(program);
  graph::Autodiff({.loss = "loss", .carry = graph::Carry::kNone, .loss_scale = "loss_scale"})
      .Run(program);

  ThreadPool pool(2);
  ops::Interpreter interpreter(program, pool);
  for (const Tensor& tensor : program.tensors()) {
    if (!tensor.persistent || tensor.role == Role::kMetric) continue;
    if (tensor.name == "loss_scale") {
      interpreter.Set(tensor.name, std::vector<double>{loss_scale});
    } else {
      interpreter.Set(tensor.name, InitialValues(tensor));
    }
  }
  interpreter.Run();
  Results results;
  for (const Tensor& tensor : program.tensors()) {
    if (tensor.name != "loss" && !tensor.name.ends_with(".grad")) continue;
    EXPECT_EQ(tensor.type.dtype, DType::kFloat32) << tensor.name;
    results[tensor.name] = interpreter.Get(tensor.name);
  }
  EXPECT_EQ(results.size(), model->parameters().size() + 1);
  return results;
}

// ‖a − b‖ / ‖b‖
double RelativeError(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

AmpOptions In(DType dtype) {
  AmpOptions options;
  options.dtype = dtype;
  return options;
}

class Gradients : public testing::TestWithParam<bool> {
 protected:
  void ExpectNear(const Results& results, double loss_tolerance, double tolerance) {
    const Results expected = LossAndGradients(GetParam(), {});
    EXPECT_LT(RelativeError(results.at("loss"), expected.at("loss")), loss_tolerance);
    for (const auto& [name, values] : expected) {
      EXPECT_LT(RelativeError(results.at(name), values), tolerance) << name;
    }
    EXPECT_NE(results, expected) << "nothing was rounded";
  }
};

TEST_P(Gradients, InBf16AreNearThoseInFloat32) {
  ExpectNear(LossAndGradients(GetParam(), In(DType::kBFloat16)), 1e-3, 2e-2);
}

TEST_P(Gradients, InFp16AreNearThoseInFloat32) {
  Results results = LossAndGradients(GetParam(), In(DType::kFloat16), 1024);
  for (auto& [name, values] : results) {
    for (double& value : values) value /= name == "loss" ? 1 : 1024;
  }
  ExpectNear(results, 1e-4, 3e-3);
}

// With every op kind overridden there is no rounding and no cast left.
TEST_P(Gradients, WithEveryOpInFloat32AreThoseOfFloat32) {
  AmpOptions options = In(DType::kBFloat16);
  for (const PolicyRow& row : PolicyTable()) {
    if (row.precision != Precision::kAsInput) options.fp32_ops.emplace_back(row.op);
  }
  EXPECT_EQ(FindProblem(options), std::nullopt);
  EXPECT_EQ(LossAndGradients(GetParam(), options), LossAndGradients(GetParam(), {}));
}

// Any single op kind may stay in float32: casts adapt its neighbours, also for gradients.
TEST_P(Gradients, WithOneOpInFloat32) {
  for (const PolicyRow& row : PolicyTable()) {
    if (row.precision == Precision::kAsInput) continue;
    AmpOptions options = In(DType::kBFloat16);
    options.fp32_ops = {std::string(row.op)};
    SCOPED_TRACE(row.op);
    ExpectNear(LossAndGradients(GetParam(), options), 1e-3, 2e-2);
  }
}

// A loss scale changes exponents and nothing else, to the bit, except for the few elements that
// underflow in fp16. (A text's first token attends only to itself, so that the gradients of its
// scores are only float32's rounding errors, which are extremely small.)
TEST_P(Gradients, AreMultiplesOfTheLossScale) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Results once = LossAndGradients(GetParam(), In(dtype), 32768);
    const Results twice = LossAndGradients(GetParam(), In(dtype), 65536);
    EXPECT_EQ(once.at("loss"), twice.at("loss"));
    for (const auto& [name, values] : once) {
      if (name == "loss") continue;
      std::vector<double> doubled = values;
      for (double& value : doubled) value *= 2;
      if (dtype == DType::kFloat16) {
        EXPECT_LT(RelativeError(doubled, twice.at(name)), 1e-6) << name;
      } else {
        EXPECT_EQ(doubled, twice.at(name)) << Name(dtype) << " " << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients, testing::Bool(),
                         [](const auto& info) { return info.param ? "Gpt2" : "Llama"; });

// A backward op rounds its operands like its forward op.
TEST(Gradients, ProductsOfTheBackwardPassAreInTf32Too) {
  for (const bool gpt2 : {true, false}) {
    Program program("train");
    graph::Builder builder(program);
    const auto model = models::MakeModel(Spec(gpt2));
    const auto outputs = model->Build(builder, {kBatch, kSequence}, models::Head::kLoss, true);
    program.Rename(outputs.loss, "loss");
    AmpOptions options;
    options.tf32 = true;
    MixedPrecision(options).Run(program);
    graph::Autodiff({.loss = "loss"}).Run(program);
    int forward = 0, backward = 0;
    for (const graph::Node& node : program.nodes()) {
      const bool product =
          node.op->name.starts_with("linear") || node.op->name.starts_with("matmul");
      const bool attention = node.op->name.starts_with("attention");
      EXPECT_EQ(node.attributes.Has("tf32"), product || attention) << node.op->name;
      if (product) ++(node.phase == graph::Phase::kForward ? forward : backward);
    }
    EXPECT_EQ(backward, 2 * forward - 1) << "linear_dx and linear_dw, but one op for the loss";
  }
}

}  // namespace
}  // namespace plimsoll::amp
