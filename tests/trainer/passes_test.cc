// Passes that claim to preserve numerics: losses and gradients are equal to the bit with the pass
// and without, run by an interpreter that plans nothing.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph/autodiff.h"
#include "graph/fuse.h"
#include "graph/simplify.h"
#include "ops/add_norm_fusion.h"
#include "ops/linear_cross_entropy_fusion.h"
#include "tests/ops/interpreter.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::Program;
using graph::Role;

// The differentiated training program of a model.
Program Differentiated(const models::ModelSpec& spec) {
  Program program("train");
  graph::Builder builder(program);
  const auto model = models::MakeModel(spec);
  program.Rename(model->Build(builder, {3, 16}, models::Head::kLoss, true).loss, "loss");
  graph::Autodiff({}).Run(program);
  return program;
}

// Everything that the host would read after a run: the loss and all gradients.
std::map<std::string, std::vector<double>> Results(const Program& program,
                                                   const models::ModelSpec& spec) {
  ThreadPool pool(2);
  ops::Interpreter interpreter(program, pool);
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent || tensor.role == Role::kMetric) continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
      if (tensor.name == "token_weight") {
        values.push_back(1.0 / 48);
      } else if (tensor.type.dtype == graph::DType::kInt32) {
        values.push_back(static_cast<double>(random() % spec.vocab));
      } else {
        values.push_back(static_cast<float>(std::normal_distribution<double>(0, 0.1)(random)));
      }
    }
    interpreter.Set(tensor.name, values);
  }
  interpreter.Run();
  std::map<std::string, std::vector<double>> results;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.role == Role::kMetric || tensor.name.ends_with(".grad")) {
      results[tensor.name] = interpreter.Get(tensor.name);
    }
  }
  return results;
}

class PreservesNumerics : public testing::TestWithParam<bool> {
 protected:
  models::ModelSpec Spec() const {
    models::ModelSpec spec = GetParam() ? TinyGpt2() : TinyLlama();
    if (GetParam()) spec.dropout = 0.1;
    return spec;
  }

  std::vector<std::string> Gradients(const Program& program) const {
    std::vector<std::string> names;
    for (const graph::Tensor& tensor : program.tensors()) {
      if (tensor.name.ends_with(".grad")) names.push_back(tensor.name);
    }
    return names;
  }

  void ExpectSame(graph::Pass& pass) {
    ASSERT_TRUE(pass.preserves_numerics());
    const Program before = Differentiated(Spec());
    Program after = Differentiated(Spec());
    EXPECT_TRUE(pass.Run(after).changed) << "the pass had nothing to do";
    const auto expected = Results(before, Spec()), results = Results(after, Spec());
    EXPECT_GT(expected.size(), 10u);
    EXPECT_EQ(results, expected);
  }
};

TEST_P(PreservesNumerics, Fuse) {
  graph::Fuse fuse({{"loss with its backward", &ops::FuseLossBackward}});
  ExpectSame(fuse);
}

TEST_P(PreservesNumerics, FuseSumsWithNorms) {
  graph::Fuse fuse({{"sum with its norm", &ops::FuseAddNorm}});
  ExpectSame(fuse);
}

TEST_P(PreservesNumerics, Simplify) {
  // Dead nodes and a result that nobody reads, so that there is something to remove.
  Program before = Differentiated(Spec());
  Program after = Differentiated(Spec());
  graph::Builder builder(after);
  builder.set_phase(graph::Phase::kBackward);
  builder.Emit1("scale", {after.Require("loss")}, {{"factor", 2.0}}, "dead");
  graph::Simplify simplify(Gradients(after));
  ASSERT_TRUE(simplify.preserves_numerics());
  EXPECT_TRUE(simplify.Run(after).changed);
  EXPECT_EQ(after.Find("dead"), graph::kNoTensor);
  EXPECT_EQ(Results(after, Spec()), Results(before, Spec()));
}

INSTANTIATE_TEST_SUITE_P(Models, PreservesNumerics, testing::Bool(),
                         [](const auto& info) { return info.param ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace plimsoll::trainer
