#include "models/segmentation.h"

#include <string>

#include "models/segmentation_scores.h"
#include "ops/data_movement/views.h"
#include "ops/loss/confusion.h"

namespace plimsoll::models {

using graph::DType;
using graph::Value;

Model::Outputs SegmentationHead(Layers& g, Value logits, Head head,
                                const ops::DiceOptions& options) {
  Model::Outputs outputs;
  if (head == Head::kLogits) {
    outputs.logits = logits;
    return outputs;
  }
  graph::Builder& builder = g.builder();
  const graph::Shape pixels = g.shape(logits).DropLast();
  const Value labels = g.Input("labels", DType::kInt32, pixels);
  outputs.loss = ops::DiceLoss(builder, logits, labels, g.SampleWeight(), options, "loss");
  if (g.training()) return outputs;
  outputs.logits = logits;
  const int64_t rows = pixels.elements(), classes = g.shape(logits).dim(-1);
  const Value by_row = ops::View(builder, logits, {rows, classes});
  const Value label_of_row = ops::View(builder, labels, {rows});
  outputs.metrics.push_back({.name = "confusion",
                             .sum = ops::Confuse(builder, by_row, label_of_row, "confuse").counts,
                             .rows = "label",
                             .columns = "prediction",
                             .derived = DiceScores(classes)});
  return outputs;
}

std::vector<Setting> SegmentationSettings() {
  const auto weight = [](const std::string& name, const std::string& doc) {
    return Setting{.name = name,
                   .type = Setting::Type::kFloat,
                   .doc = doc,
                   .default_value = 1.0,
                   .min = 0,
                   .max = 1e6,
                   .beside_weights = Setting::BesideWeights::kYes};
  };
  const auto choice = [](const std::string& name, const std::string& doc, bool value) {
    return Setting{.name = name,
                   .type = Setting::Type::kBool,
                   .doc = doc,
                   .default_value = value,
                   .beside_weights = Setting::BesideWeights::kYes};
  };
  return {{.name = "classes",
           .doc = "Classes that are told apart; class 0 is the background.",
           .derived = "as many as the `dataset.json` of the data names, or else required",
           .required = "give the number of classes, with the background",
           .min = 1,
           .max = 1e7,
           .beside_weights = Setting::BesideWeights::kYes},
          weight("dice_weight", "Weight of the Dice loss, as MONAI's `lambda_dice`."),
          weight("cross_entropy_weight", "Weight of the cross-entropy, as MONAI's `lambda_ce`."),
          choice("dice_background", "Whether the Dice loss counts the background.", true),
          choice("dice_squared",
                 "Whether the Dice loss's denominator sums squared probabilities (V-Net).", false)};
}

ops::DiceOptions SegmentationOptionsOf(const Settings& settings) {
  const int64_t classes = settings.Int("classes");
  if (classes < 2) {
    throw SettingError("classes", "1 class is the background alone; give at least 2");
  }
  if (classes > ops::kMostDiceClasses) {
    throw SettingError("classes", "the loss of segmentation tells apart at most " +
                                      std::to_string(ops::kMostDiceClasses) + " classes");
  }
  const ops::DiceOptions options = {.include_background = settings.Bool("dice_background"),
                                    .squared_pred = settings.Bool("dice_squared"),
                                    .lambda_dice = settings.Float("dice_weight"),
                                    .lambda_ce = settings.Float("cross_entropy_weight")};
  if (options.lambda_dice == 0 && options.lambda_ce == 0) {
    throw SettingError("dice_weight", "0 beside model.cross_entropy_weight: 0 leaves no loss");
  }
  return options;
}

}  // namespace plimsoll::models
