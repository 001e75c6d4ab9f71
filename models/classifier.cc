#include "models/classifier.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/classification_scores.h"
#include "models/language_model.h"
#include "ops/linear.h"
#include "ops/loss/confusion.h"
#include "ops/loss/cross_entropy.h"

namespace plimsoll::models {

using graph::DType;
using graph::Scope;
using graph::Value;

namespace {

constexpr int64_t kMostConfused = 1024;  // classes: the matrix takes 4 MiB

}  // namespace

Initializer UniformByInputs(int64_t inputs) {
  return {.kind = Initializer::kUniform, .bound = 1 / std::sqrt(static_cast<double>(inputs))};
}

Model::Outputs ClassifierHead(Layers& g, std::string_view name, Value x, Head head,
                              const ClassifierOptions& options) {
  graph::Builder& builder = g.builder();
  Value weight, bias;
  {
    const Scope scope(builder, name);
    weight = g.Parameter("weight", {options.classes, g.shape(x).dim(-1)}, options.weight);
    bias = g.Parameter("bias", {options.classes}, options.bias);
  }
  Model::Outputs outputs;
  if (!g.training()) outputs.features = x;
  const Value logits = ops::Linear(builder, x, weight, bias, name);
  if (head == Head::kLogits) {
    outputs.logits = logits;
    return outputs;
  }
  const Value labels = g.Input("labels", DType::kInt32, {g.batch().batch});
  ops::SecondLabels second;
  if (options.mixed_labels && g.training()) {
    second = {g.Input("labels_b", DType::kInt32, {g.batch().batch}),
              g.Input("label_weight", DType::kFloat32, {g.batch().batch})};
  }
  outputs.loss = ops::CrossEntropy(builder, logits, labels, g.TokenWeight(),
                                   options.label_smoothing, "loss", second);
  for (const int64_t k : {1, 5}) {
    if (k > 1 && options.classes <= k) continue;
    const ops::TopK counts =
        ops::CountTopK(builder, logits, labels, k, k == 1 ? "first" : "first_five");
    outputs.metrics.push_back({.name = k == 1 ? "accuracy" : "top5",
                               .sum = counts.right,
                               .count = counts.rows,
                               .larger_is_better = true});
  }
  if (!g.training()) outputs.logits = logits;
  // A batch says little about classes.
  if (!g.training() && options.classes <= kMostConfused) {
    outputs.metrics.push_back({.name = "confusion",
                               .sum = ops::Confuse(builder, logits, labels, "confuse").counts,
                               .rows = "label",
                               .columns = "prediction",
                               .derived = {{"f1", &F1, true}, {"mcc", &Mcc, true}}});
  }
  return outputs;
}

std::vector<Setting> ClassifierSettings() {
  return {{.name = "classes",
           .doc = "Classes that are told apart.",
           .required = "give the number of classes",
           .min = 2,
           .max = 1e7,
           .beside_weights = Setting::BesideWeights::kYes},
          {.name = "label_smoothing",
           .type = Setting::Type::kFloat,
           .doc = "Share of a label's weight that all classes get alike.",
           .default_value = 0.0,
           .min = 0,
           .max = 1,
           .below_max = true,
           .beside_weights = Setting::BesideWeights::kYes}};
}

Setting MixedLabelsSetting() {
  return {.name = "mixed_labels",
          .type = Setting::Type::kBool,
          .doc =
              "The loss in training is that of two labels with weights, as mixed images have "
              "them.",
          .default_value = false,
          .derived = "true where `data.mixup` or `data.cutmix` mixes images",
          .beside_weights = Setting::BesideWeights::kYes};
}

int64_t ReadClasses(const formats::JsonObject& config) {
  if (config.Has("id2label")) return std::ssize(config.RequireObject("id2label").Keys());
  return SizeIn(config, "num_labels", 2);
}

void WriteClasses(int64_t classes, nlohmann::ordered_json& config) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(NumberedClass(i));
  WriteClassNames(names, config);
}

std::vector<std::string> ReadClassNames(const formats::JsonObject& config) {
  std::vector<std::string> names;
  if (!config.Has("id2label")) return names;
  const formats::JsonObject by_number = config.RequireObject("id2label");
  const int64_t count = std::ssize(by_number.Keys());
  for (int64_t i = 0; i < count; ++i) {
    const auto name = by_number.json().find(std::to_string(i));
    if (name == by_number.json().end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

void WriteClassNames(const std::vector<std::string>& names, nlohmann::ordered_json& config) {
  nlohmann::ordered_json by_number, numbers;
  for (size_t i = 0; i < names.size(); ++i) {
    by_number[std::to_string(i)] = names[i];
    numbers[names[i]] = i;
  }
  config["id2label"] = by_number;
  config["label2id"] = numbers;
}

}  // namespace plimsoll::models
