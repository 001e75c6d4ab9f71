// Examples of the loss of a classifier, and of counting what it gets right.
#include <string>
#include <utility>

#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

ExampleInput Labels(graph::Shape shape, int64_t classes) {
  return {shape, Fill::kTargets, classes};
}
ExampleInput Scalar() { return {{}, Fill::kPositive}; }

const ExampleRegistration kLoss({.op = "cross_entropy",
                                 .label = "",
                                 .inputs = {{{3, 5, 7}}, Labels({3, 5}, 7), Scalar()},
                                 .attributes = {{"label_smoothing", 0.0}},
                                 .float32_inputs = {2}});
const ExampleRegistration kLossSmooth({.op = "cross_entropy",
                                       .label = "smoothed labels, many classes",
                                       .inputs = {{{37, 130}}, Labels({37}, 130), Scalar()},
                                       .attributes = {{"label_smoothing", 0.1}},
                                       .float32_inputs = {2}});
const ExampleRegistration kLossBackward({.op = "cross_entropy_backward",
                                         .label = "",
                                         .inputs = {{{9, 40}, Fill::kSmall},
                                                    Labels({9}, 40),
                                                    Scalar(),
                                                    {{9}, Fill::kPositive},
                                                    Scalar()},
                                         .attributes = {{"label_smoothing", 0.1}},
                                         .float32_inputs = {2},
                                         .compute_inputs = {3, 4}});

const ExampleRegistration kLossOfTwo(
    {.op = "cross_entropy",
     .label = "two labels",
     .inputs = {{{11, 7}}, Labels({11}, 7), Scalar(), Labels({11}, 7), {{11}, Fill::kPositive}},
     .attributes = {{"label_smoothing", 0.1}},
     .float32_inputs = {2, 4}});
const ExampleRegistration kLossBackwardOfTwo({.op = "cross_entropy_backward",
                                              .label = "two labels",
                                              .inputs = {{{9, 40}, Fill::kSmall},
                                                         Labels({9}, 40),
                                                         Scalar(),
                                                         {{9}, Fill::kPositive},
                                                         Scalar(),
                                                         Labels({9}, 40),
                                                         {{9}, Fill::kPositive}},
                                              .attributes = {{"label_smoothing", 0.1}},
                                              .float32_inputs = {2, 6},
                                              .compute_inputs = {3, 4}});

const ExampleRegistration kTopK({.op = "count_top_k",
                                 .label = "first",
                                 .inputs = {{{40, 6}}, Labels({40}, 6)},
                                 .attributes = {{"k", 1}}});
const ExampleRegistration kTopKFive({.op = "count_top_k",
                                     .label = "first five",
                                     .inputs = {{{2, 30, 70}}, Labels({2, 30}, 70)},
                                     .attributes = {{"k", 5}}});

const ExampleRegistration kConfusion({.op = "confusion",
                                      .label = "",
                                      .inputs = {{{4, 7, 3}}, Labels({4, 7}, 3)}});
const ExampleRegistration kConfusionOfVoxels({.op = "confusion",
                                              .label = "many rows",
                                              .inputs = {{{2, 4500, 3}}, Labels({2, 4500}, 3)}});
const ExampleRegistration kConfusionOfMany({.op = "confusion",
                                            .label = "many classes",
                                            .inputs = {{{60, 70}}, Labels({60}, 70)}});

Example LabelCounts(std::string label, graph::Shape logits) {
  return {.op = "count_labels",
          .label = std::move(label),
          .inputs = {{logits}, {logits, Fill::kNumbers}},
          .float32_inputs = {1}};
}
const ExampleRegistration kLabels(LabelCounts("", {4, 7, 3}));
const ExampleRegistration kLabelsOfManyRows(LabelCounts("many rows", {1500, 3}));
const ExampleRegistration kManyLabels(LabelCounts("many labels", {37, 300}));

Example NumbersLoss(std::string label, graph::Shape predictions) {
  return {.op = "squared_error",
          .label = std::move(label),
          .inputs = {{predictions}, Scalar(), {predictions, Fill::kNumbers}},
          .float32_inputs = {1, 2}};
}
Example NumbersLossBackward(std::string label, graph::Shape predictions) {
  Example example = NumbersLoss(std::move(label), predictions);
  example.op = "squared_error_backward";
  example.inputs.push_back(Scalar());
  example.compute_inputs = {3};
  return example;
}
const ExampleRegistration kNumbers(NumbersLoss("", {13}));
const ExampleRegistration kNumbersOfMany(NumbersLoss("many", {700, 3}));
const ExampleRegistration kNumbersBackward(NumbersLossBackward("", {13}));
const ExampleRegistration kNumbersBackwardPacks(NumbersLossBackward("packs", {2048}));

}  // namespace
}  // namespace plimsoll::ops
