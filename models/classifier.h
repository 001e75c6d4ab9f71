// The head of models that tell classes apart, and its settings.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "models/layers.h"

namespace plimsoll::models {

struct ClassifierOptions {
  int64_t classes = 0;
  double label_smoothing = 0;
  bool mixed_labels = false;  // in training, each row has two labels (ops/loss/cross_entropy.h)
  Initializer weight, bias;
};

// PyTorch's initial values of a linear layer of that many inputs: uniform within ±1/√inputs.
Initializer UniformByInputs(int64_t inputs);

// x[B,D] → a linear layer's logits[B,classes]. With Head::kLoss: their loss against the input
// "labels", i32[B] (negative: none), and the metrics accuracy and, of more than five classes, top5;
// outside of training the logits and the features x as well, and the confusion matrix of up to
// 1,024 classes, with F1 and MCC. With mixed labels, training also reads "labels_b", i32[B], and
// "label_weight", f32[B]: the second label and the weight of the first; the metrics look at the
// first.
Model::Outputs ClassifierHead(Layers& g, std::string_view name, graph::Value x, Head head,
                              const ClassifierOptions& options);

// classes, label_smoothing.
std::vector<Setting> ClassifierSettings();
// mixed_labels, which the configuration sets where the data mixes images (data::SourceKind).
Setting MixedLabelsSetting();

// The number of classes in transformers' config.json: one for each member of id2label; without it
// num_labels, or 2.
int64_t ReadClasses(const formats::JsonObject& config);
void WriteClasses(int64_t classes, nlohmann::ordered_json& config);

// The names in id2label, by number; empty where they are not there for all numbers from 0 on.
std::vector<std::string> ReadClassNames(const formats::JsonObject& config);
// Writes id2label and label2id.
void WriteClassNames(const std::vector<std::string>& names, nlohmann::ordered_json& config);

}  // namespace plimsoll::models
