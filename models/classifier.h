// The classification head of a model, and its settings.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "models/layers.h"

namespace plimsoll::models {

struct ClassifierOptions {
  int64_t classes = 0;  // the number of logits; 1 for regression
  ProblemType problem = ProblemType::kSingleLabel;
  double label_smoothing = 0;
  bool mixed_labels = false;  // whether each training row has two labels (ops/loss/cross_entropy.h)
  Initializer weight, bias;
};

// The initial values of PyTorch's linear layer with that number of inputs: uniform within
// ±1/√inputs.
Initializer UniformByInputs(int64_t inputs);

// Applies a linear layer to x[B,D], which gives logits[B,classes]. With Head::kLoss, adds the loss
// and metrics of the problem type:
//
//   kSingleLabel  Cross-entropy against the input "labels", i32[B] (negative: none). Metrics:
//                 accuracy and, of more than five classes, top5; outside of training the confusion
//                 matrix of up to 1,024 classes, with F1 and MCC. With mixed labels, training also
//                 reads "labels_b", i32[B], and "label_weight", f32[B]: the second label and the
//                 weight of the first; the metrics only use the first.
//   kMultiLabel   The mean over the classes of the binary cross-entropy against "label_values",
//                 f32[B,classes] within [0, 1]. Metrics: accuracy, the share of samples all of
//                 whose labels are right; outside of training label_counts, with F1 scores and
//                 label_accuracy (scores.h).
//   kRegression   The squared error against "label_values", f32[B]. Metrics outside of training:
//                 moments, with mse, mae, r2 and pearson (scores.h).
//
// A sample whose label_values are NaN has no label. Outside of training the logits and the features
// x are outputs as well.
Model::Outputs ClassifierHead(Layers& g, std::string_view name, graph::Value x, Head head,
                              const ClassifierOptions& options);

// The settings classes, problem_type and label_smoothing.
std::vector<Setting> ClassifierSettings();
// Fills in problem_type, and the number of classes for regression. Throws a SettingError if
// problem_type, classes and label_smoothing contradict each other, and MissingSetting if the number
// of classes is not given.
void CompleteClassifier(Settings& settings);
ProblemType ProblemTypeOf(const Settings& settings);  // requires complete settings
// Requires complete settings. Throws a SettingError if labels are mixed and samples do not have one
// class each.
ClassifierOptions ClassifierOptionsOf(const Settings& settings, Initializer weight,
                                      Initializer bias);
// Model::input_bounds() of a classifier: the upper bound of the input "labels", if the model has
// it.
std::map<std::string, int64_t> LabelBounds(const Settings& settings);
// The setting mixed_labels, which is set if the data source mixes images (data::SourceKind).
Setting MixedLabelsSetting();

// Derives classes and problem_type from transformers' config.json. The number of classes is that of
// id2label's members, else num_labels, else 2. Without problem_type, a single class means
// regression, as in transformers. If the settings give a problem_type, it also determines the
// classes: regression has one.
void ReadClassifier(const formats::JsonObject& config, Settings& settings);
// Writes the keys problem_type, id2label and label2id.
void WriteClassifier(const Settings& settings, nlohmann::ordered_json& config);

// The names in id2label by class number. Empty unless id2label has a name for every number from 0
// on.
std::vector<std::string> ReadClassNames(const formats::JsonObject& config);
// Writes id2label and label2id.
void WriteClassNames(const std::vector<std::string>& names, nlohmann::ordered_json& config);

}  // namespace plimsoll::models
