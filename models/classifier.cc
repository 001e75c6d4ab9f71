#include "models/classifier.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/amounts.h"
#include "models/language_model.h"
#include "models/scores.h"
#include "ops/data_movement/views.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/linear.h"
#include "ops/loss/binary_cross_entropy.h"
#include "ops/loss/confusion.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/squared_error.h"

namespace plimsoll::models {

using graph::DType;
using graph::Scope;
using graph::Value;

namespace {

constexpr int64_t kMostConfused = 1024;  // the confusion matrix then takes at most 4 MiB

// Names of transformers' problem types, in the order of ProblemType.
constexpr std::array<const char*, 3> kProblems = {"single_label_classification",
                                                  "multi_label_classification", "regression"};
constexpr const char* kSingleLabel = kProblems[0];
constexpr const char* kRegression = kProblems[2];

// Throws a SettingError if the setting requires one class for each sample, and the problem type is
// another.
void RequireOneLabel(const Settings& s, const char* setting, const char* way_out) {
  const std::string& problem = s.Text("problem_type");
  if (problem == kSingleLabel) return;
  throw SettingError(setting, fmt::format("needs model.problem_type: {}, which is {}{}; {}",
                                          kSingleLabel, problem, s.At("problem_type"), way_out));
}

// Adds the loss of logits[B,C], and the metrics.
void AddSingleLabelLoss(Layers& g, Value logits, const ClassifierOptions& options,
                        Model::Outputs& outputs) {
  graph::Builder& builder = g.builder();
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
  // A confusion matrix is computed in evaluation only, since one training batch has too few samples
  // for it.
  if (!g.training() && options.classes <= kMostConfused) {
    outputs.metrics.push_back({.name = "confusion",
                               .sum = ops::Confuse(builder, logits, labels, "confuse").counts,
                               .rows = "label",
                               .columns = "prediction",
                               .derived = {{"f1", &F1, true}, {"mcc", &Mcc, true}}});
  }
}

void AddMultiLabelLoss(Layers& g, Value logits, Model::Outputs& outputs) {
  graph::Builder& builder = g.builder();
  const graph::Shape shape = g.shape(logits);
  const Value values = g.Input("label_values", DType::kFloat32, shape);
  const Value weight =
      ops::Scale(builder, g.TokenWeight(), 1.0 / static_cast<double>(shape.dim(1)), "label_share");
  outputs.loss = ops::BinaryCrossEntropyOfTargets(builder, logits, weight, values, "loss").loss;
  const ops::LabelCounts counts = ops::CountLabels(builder, logits, values, "count");
  outputs.metrics.push_back(
      {.name = "accuracy", .sum = counts.right, .count = counts.rows, .larger_is_better = true});
  if (g.training()) return;
  outputs.metrics.push_back({.name = "label_counts",
                             .sum = counts.counts,
                             .derived = {{"f1_micro", &MicroF1, true},
                                         {"f1_macro", &MacroF1, true},
                                         {"label_accuracy", &LabelAccuracy, true}}});
}

void AddRegressionLoss(Layers& g, Value logits, Model::Outputs& outputs) {
  graph::Builder& builder = g.builder();
  const int64_t batch = g.batch().batch;
  const Value values = g.Input("label_values", DType::kFloat32, {batch});
  const Value predictions = ops::View(builder, logits, {batch}, "predictions");
  const ops::SquaredErrorSums sums =
      ops::SquaredError(builder, predictions, g.TokenWeight(), values, "loss");
  outputs.loss = sums.loss;
  if (g.training()) return;
  outputs.metrics.push_back({.name = "moments",
                             .sum = sums.moments,
                             .derived = {{"mse", &MeanSquaredError, false},
                                         {"mae", &MeanAbsoluteError, false},
                                         {"r2", &R2, true},
                                         {"pearson", &Pearson, true}}});
}

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
  if (head == Head::kLogits || !g.training()) outputs.logits = logits;
  if (head == Head::kLogits) return outputs;
  switch (options.problem) {
    case ProblemType::kSingleLabel:
      AddSingleLabelLoss(g, logits, options, outputs);
      break;
    case ProblemType::kMultiLabel:
      AddMultiLabelLoss(g, logits, outputs);
      break;
    case ProblemType::kRegression:
      AddRegressionLoss(g, logits, outputs);
      break;
  }
  return outputs;
}

std::vector<Setting> ClassifierSettings() {
  return {{.name = "classes",
           .doc = "Classes that are distinguished; 1 for `problem_type: regression`.",
           .derived = "as many as the data have; 1 for `problem_type: regression`",
           .min = 1,
           .max = 1e7,
           .with_loaded_weights = Setting::WithLoadedWeights::kYes},
          {.name = "problem_type",
           .type = Setting::Type::kChoice,
           .doc = "What the classifier says, as in transformers: one class of each sample, by "
                  "cross-entropy; any number of classes of each, by binary cross-entropy; or a "
                  "number, by squared error.",
           .derived = "`regression` where `classes` is 1, otherwise `single_label_classification`",
           .choices = {kProblems.begin(), kProblems.end()},
           .with_loaded_weights = Setting::WithLoadedWeights::kYes},
          {.name = "label_smoothing",
           .type = Setting::Type::kFloat,
           .doc = "Share of a label's weight that all classes get alike.",
           .default_value = 0.0,
           .min = 0,
           .max = 1,
           .below_max = true,
           .with_loaded_weights = Setting::WithLoadedWeights::kYes}};
}

void CompleteClassifier(Settings& s) {
  if (!s.Has("classes")) {
    if (!s.Has("problem_type") || s.Text("problem_type") != kRegression) {
      throw MissingSetting("classes", "give the number of classes");
    }
    s.Set("classes", int64_t{1});
  }
  const int64_t classes = s.Int("classes");
  if (!s.Has("problem_type")) {
    s.Set("problem_type", std::string(classes == 1 ? kRegression : kSingleLabel));
  }
  const std::string& problem = s.Text("problem_type");
  if (problem == kRegression && classes != 1) {
    throw SettingError("classes",
                       fmt::format("{} with model.problem_type: regression{}, which is of one "
                                   "number; set model.classes to 1, or model.problem_type to {} "
                                   "or {}",
                                   classes, s.At("problem_type"), kProblems[0], kProblems[1]));
  }
  if (problem != kRegression && classes == 1) {
    throw SettingError(
        "classes", fmt::format("1 with model.problem_type: {}{}; give 2 or more classes, or set "
                               "model.problem_type to regression",
                               problem, s.At("problem_type")));
  }
  if (s.Float("label_smoothing") > 0) RequireOneLabel(s, "label_smoothing", "set it to 0");
}

ProblemType ProblemTypeOf(const Settings& settings) {
  const auto found = std::ranges::find(kProblems, settings.Text("problem_type"));
  return static_cast<ProblemType>(found - kProblems.begin());
}

ClassifierOptions ClassifierOptionsOf(const Settings& settings, Initializer weight,
                                      Initializer bias) {
  const bool mixed_labels = settings.Has("mixed_labels") && settings.Bool("mixed_labels");
  if (mixed_labels) {
    RequireOneLabel(settings, "mixed_labels", "leave out data.mixup and data.cutmix");
  }
  return {.classes = settings.Int("classes"),
          .problem = ProblemTypeOf(settings),
          .label_smoothing = settings.Float("label_smoothing"),
          .mixed_labels = mixed_labels,
          .weight = weight,
          .bias = bias};
}

std::map<std::string, int64_t> LabelBounds(const Settings& settings) {
  if (ProblemTypeOf(settings) != ProblemType::kSingleLabel) return {};
  return {{"labels", settings.Int("classes")}};
}

Setting MixedLabelsSetting() {
  return {.name = "mixed_labels",
          .type = Setting::Type::kBool,
          .doc =
              "The loss in training is that of two labels with weights, as mixed images have "
              "them.",
          .default_value = false,
          .derived = "true where `data.mixup` or `data.cutmix` mixes images",
          .with_loaded_weights = Setting::WithLoadedWeights::kYes};
}

void ReadClassifier(const formats::JsonObject& config, Settings& settings) {
  if (config.Has("problem_type")) {
    const std::string problem = config.RequireString("problem_type");
    if (std::ranges::find(kProblems, problem) == kProblems.end()) {
      config.Fail("problem_type",
                  fmt::format("\"{}\" is not supported, only {}", formats::Printable(problem),
                              fmt::join(kProblems, ", ")));
    }
    settings.Derive("problem_type", problem);
  }
  const bool asks_number =
      settings.IsGiven("problem_type") && settings.Text("problem_type") == kRegression;
  int64_t classes = 1;
  const int64_t named =
      config.Has("id2label") ? std::ssize(config.RequireObject("id2label").Keys()) : 0;
  if (!asks_number && named > 0) {
    classes = named;
  } else if (!asks_number) {
    classes = SizeIn(config, "num_labels", 2);
  }
  settings.Derive("classes", classes);
}

void WriteClassifier(const Settings& settings, nlohmann::ordered_json& config) {
  config["problem_type"] = settings.Text("problem_type");
  std::vector<std::string> names;
  for (int64_t i = 0; i < settings.Int("classes"); ++i) names.push_back(NumberedClass(i));
  WriteClassNames(names, config);
}

std::vector<std::string> ReadClassNames(const formats::JsonObject& config) {
  std::vector<std::string> names;
  if (!config.Has("id2label")) return names;
  const formats::JsonObject by_number = config.RequireObject("id2label");
  const int64_t count = std::ssize(by_number.Keys());
  for (int64_t i = 0; i < count; ++i) {
    const auto name = by_number.json().find(std::to_string(i));
    if (name == by_number.json().end() || !name->is_string()) {
      config.Fail("id2label",
                  fmt::format("names {}, but has no name for {}", Counted(count, "class"), i));
    }
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
