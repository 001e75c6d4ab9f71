// Models whose rows hold several documents (ModelSpec::documents_apart): loss and gradients of a
// packed row are the sums of those of each document in a row of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/autodiff.h"
#include "tests/models/published.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::models {
namespace {

using graph::Program;

constexpr int64_t kVocab = 19;

std::vector<double> Numbers(int64_t count, int64_t first, int64_t below) {
  std::vector<double> numbers;
  for (int64_t i = first; i < first + count; ++i) {
    numbers.push_back(static_cast<double>((i * 7 + i * i * 3 + 5) % below));
  }
  return numbers;
}

using Numbered = std::map<std::string, std::vector<double>>;

// The loss, and the gradient of each parameter.
Numbered LossAndGradients(const ModelSpec& spec, const Numbered& inputs) {
  const auto sequence = std::ssize(inputs.at("tokens"));
  const auto model = MakeModel(spec);
  Program program("train");
  graph::Builder builder(program);
  const Model::Outputs outputs =
      model->Build(builder, {.batch = 1, .sequence = sequence}, Head::kLoss, /*training=*/true);
  program.Rename(outputs.loss, "loss");
  graph::Autodiff({.loss = "loss"}).Run(program);
  ThreadPool pool(2);
  ops::Interpreter interpreter(program, pool);
  int64_t number = 0;
  for (const ParameterInfo& parameter : model->parameters()) {
    std::vector<double> values;
    for (int64_t i = 0; i < parameter.shape.elements(); ++i) {
      values.push_back(0.4 * std::sin(static_cast<double>(++number) * 1.7));
    }
    interpreter.Set(parameter.name, values);
  }
  for (const auto& [name, values] : inputs) interpreter.Set(name, values);
  interpreter.Run();
  Numbered results = {{"loss", interpreter.Get("loss")}};
  for (const ParameterInfo& parameter : model->parameters()) {
    results[parameter.name] = interpreter.Get(parameter.name + ".grad");
  }
  return results;
}

void ExpectNear(const Numbered& got, const Numbered& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, values] : want) {
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got.at(name).at(i), values[i], 2e-4 * (1 + std::fabs(values[i])))
          << name << " " << i;
    }
  }
}

class DocumentsApartTest : public testing::TestWithParam<ModelSpec> {};

TEST_P(DocumentsApartTest, GiveTheSumsOfTheirOwnRows) {
  ModelSpec together = GetParam(), alone = GetParam();
  together.documents_apart = true;
  Numbered packed = {{"token_weight", {1}}}, sums;
  int64_t begin = 0;
  for (const int64_t count : {6, 1, 9}) {
    const Numbered own = {{"tokens", Numbers(count, begin, kVocab)},
                          {"targets", Numbers(count, begin + 1, kVocab)},
                          {"token_weight", {1}}};
    for (const char* name : {"tokens", "targets"}) {
      packed[name].insert(packed[name].end(), own.at(name).begin(), own.at(name).end());
    }
    for (int64_t i = 0; i < count; ++i) packed["positions"].push_back(static_cast<double>(i));
    for (const auto& [name, values] : LossAndGradients(alone, own)) {
      sums[name].resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) sums[name][i] += values[i];
    }
    begin += count;
  }
  ExpectNear(LossAndGradients(together, packed), sums);

  // Without it, documents see one another.
  packed.erase("positions");
  double apart = 0;
  for (const auto& [name, values] : LossAndGradients(alone, packed)) {
    for (size_t i = 0; i < values.size(); ++i) {
      apart = std::max(apart, std::fabs(values[i] - sums.at(name)[i]));
    }
  }
  EXPECT_GT(apart, 0.1);
}

ModelSpec Qwen2Spec() {
  ModelSpec spec = LlamaSpec({2, 16, 4, 2, 6, 20, kVocab, 16, true});
  spec.family = "qwen2";
  spec.attention_bias = true;
  return spec;
}

INSTANTIATE_TEST_SUITE_P(Families, DocumentsApartTest,
                         testing::Values(Gpt2Spec(2, 16, 4, kVocab, 16),
                                         LlamaSpec({2, 16, 4, 2, 6, 20, kVocab, 16, false}),
                                         Qwen2Spec()),
                         [](const testing::TestParamInfo<ModelSpec>& info) {
                           return info.param.family;
                         });

}  // namespace
}  // namespace plimsoll::models
