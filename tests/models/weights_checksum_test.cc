// Which checkpoints count as the same, and what training starts from of those that aren't.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/huggingface.h"
#include "tests/models/loaded_weights.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

// The element of `changed` has another number.
void Write(const std::string& folder, const Model& model, const std::string& changed = "",
           int64_t most_bytes = kMaxCheckpointFileBytes) {
  std::vector<float> values;
  SaveWeights(
      folder, model,
      [&](const ParameterInfo& parameter) -> const float* {
        values.assign(static_cast<size_t>(parameter.shape.elements()), 0.5f);
        if (parameter.name == changed) values.back() = 0.50000006f;
        return values.data();
      },
      most_bytes);
}

TEST(WeightsChecksum, IsThatOfTheNumbersNotOfTheFiles) {
  const auto model = MakeModel(Gpt2Spec(2, 16, 2, 40, 8));
  const TempFolder one, two, other;
  Write(one.path(), *model);
  Write(two.path(), *model, "", 4000);
  const std::string sum = WeightsChecksum(one.path());
  EXPECT_EQ(sum.size(), 18u);
  EXPECT_EQ(WeightsChecksum(two.path()), sum);
  for (const ParameterInfo& parameter : model->parameters()) {
    Write(other.path(), *model, parameter.name);
    EXPECT_NE(WeightsChecksum(other.path()), sum) << parameter.name;
  }
  const auto wider = MakeModel(Gpt2Spec(2, 16, 2, 41, 8));
  Write(other.path(), *wider);
  EXPECT_NE(WeightsChecksum(other.path()), sum);
}

TEST(FreshParameters, AreThoseThatTheFolderLacks) {
  const std::string folder = "tests/models/encoders/bert-masked-lm";
  Settings settings;
  settings.Set("task", std::string("classification"), "test");
  settings.Set("classes", int64_t{4}, "test");
  const auto model = ModelFromHuggingFace(folder, settings);
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : FreshParameters(folder, *model)) {
    names.push_back(parameter.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"pooler.dense.weight", "pooler.dense.bias",
                                             "classifier.weight", "classifier.bias"}));
  EXPECT_TRUE(FreshParameters(folder, *ModelFromHuggingFace(folder)).empty());
  const TempFolder without_weights;
  EXPECT_TRUE(FreshParameters(without_weights.path(), *model).empty());
  // What another file holds is not missed.
  ExpectUserError([&] { WeightReader(folder, *model); }, {"bert.pooler.dense.weight"});
  const WeightReader reader(folder, *model, Misfits::kRefused, {names.begin(), names.end()});
  const ParameterInfo& table = model->parameters().front();
  std::vector<float> values(static_cast<size_t>(table.shape.elements()));
  reader.Read(table, values.data());
}

}  // namespace
}  // namespace plimsoll::models
