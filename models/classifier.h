// The head of models that tell classes apart, and its settings.
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
  int64_t classes = 0;  // outputs; of regression 1
  ProblemType problem = ProblemType::kSingleLabel;
  double label_smoothing = 0;
  bool mixed_labels = false;  // in training, each row has two labels (ops/loss/cross_entropy.h)
  Initializer weight, bias;
};

// PyTorch's initial values of a linear layer of that many inputs: uniform within ±1/√inputs.
Initializer UniformByInputs(int64_t inputs);

// x[B,D] → a linear layer's logits[B,classes]. With Head::kLoss their loss and metrics, by problem:
//
//   kSingleLabel  Cross-entropy against the input "labels", i32[B] (negative: none). Metrics:
//   accuracy
//                 and, of more than five classes, top5; outside of training the confusion matrix of
//                 up to 1,024 classes, with F1 and MCC. With mixed labels, training also reads
//                 "labels_b", i32[B], and "label_weight", f32[B]: the second label and the weight
//                 of the first; the metrics look at the first.
//   kMultiLabel   The mean over the classes of the binary cross-entropy against "label_values",
//                 f32[B,classes] within [0, 1]. Metrics: accuracy, the part of the samples of which
//                 every label is right; outside of training label_counts, with F1 scores and
//                 label_accuracy (scores.h).
//   kRegression   The squared error against "label_values", f32[B]. Metrics outside of training:
//                 moments, with mse, mae, r2 and pearson (scores.h).
//
// A sample whose label_values are NaN has no label. Outside of training the logits and the features
// x are outputs as well.
Model::Outputs ClassifierHead(Layers& g, std::string_view name, graph::Value x, Head head,
                              const ClassifierOptions& options);

// classes, problem_type, label_smoothing.
std::vector<Setting> ClassifierSettings();
// Fills in problem_type, and the classes of regression. SettingError where they and label_smoothing
// contradict one another; MissingSetting without classes.
void CompleteClassifier(Settings& settings);
ProblemType ProblemTypeOf(const Settings& settings);  // of complete settings
// Likewise. SettingError where labels are mixed and samples are not of one class.
ClassifierOptions ClassifierOptionsOf(const Settings& settings, Initializer weight,
                                      Initializer bias);
// Model::input_bounds() of a classifier: what the input "labels" is below, where there is one.
std::map<std::string, int64_t> LabelBounds(const Settings& settings);
// mixed_labels, which the configuration sets where the data mixes images (data::SourceKind).
Setting MixedLabelsSetting();

// Derives classes and problem_type from transformers' config.json: a class for each member of
// id2label; without it num_labels of them, or 2. Without problem_type one class is regression, as
// in transformers. A problem_type that is given counts for the classes, too: regression has one.
void ReadClassifier(const formats::JsonObject& config, Settings& settings);
// Writes problem_type, id2label and label2id.
void WriteClassifier(const Settings& settings, nlohmann::ordered_json& config);

// The names in id2label, by number; empty where they are not there for all numbers from 0 on.
std::vector<std::string> ReadClassNames(const formats::JsonObject& config);
// Writes id2label and label2id.
void WriteClassNames(const std::vector<std::string>& names, nlohmann::ordered_json& config);

}  // namespace plimsoll::models
