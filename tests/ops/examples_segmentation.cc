// Examples of the loss of segmentation, in all ways in which kernels divide voxels and classes.
#include <string>
#include <utility>

#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

graph::Attributes Options(bool include_background, bool squared_pred, double lambda_ce) {
  return {{"include_background", include_background},
          {"squared_pred", squared_pred},
          {"smooth_nr", 0.25},
          {"smooth_dr", 0.5},
          {"lambda_dice", 0.75},
          {"lambda_ce", lambda_ce}};
}

Example Forward(std::string label, graph::Shape logits, graph::Attributes attributes) {
  return {.op = "dice_loss",
          .label = std::move(label),
          .inputs = {{logits},
                     {logits.DropLast(), Fill::kTargets, logits.dim(-1)},
                     {{}, Fill::kPositive}},
          .attributes = std::move(attributes),
          .float32_inputs = {2}};
}

Example Backward(std::string label, graph::Shape logits, graph::Attributes attributes) {
  Example example = Forward(std::move(label), logits, std::move(attributes));
  example.op = "dice_loss_backward";
  example.inputs.push_back({{logits.dim(0), logits.dim(-1), 3}, Fill::kPositive});
  example.inputs.push_back({{}, Fill::kPositive});
  example.compute_inputs = {3, 4};
  return example;
}

const ExampleRegistration kForward(Forward("", {2, 3, 5, 3}, Options(true, false, 0)));
const ExampleRegistration kForeground(Forward("foreground", {3, 2, 3, 3, 4},
                                              Options(false, false, 0.5)));
const ExampleRegistration kSquared(Forward("squared", {2, 7, 2}, Options(true, true, 0.5)));
// Rows of 8 voxels fill packs of every type.
const ExampleRegistration kPacks(Forward("packs", {2, 3, 8, 5}, Options(false, true, 0.5)));
const ExampleRegistration kMostNarrow(Forward("8 classes", {2, 2, 8, 8}, Options(true, false, 1)));
const ExampleRegistration kWide(Forward("wide", {2, 11, 9}, Options(false, false, 0.5)));
const ExampleRegistration kWidest(Forward("widest", {2, 9, 64}, Options(true, true, 0.5)));
const ExampleRegistration kChunks(Forward("chunks", {2, 17, 16, 32, 3}, Options(false, false, 1)));

const ExampleRegistration kBackward(Backward("", {2, 3, 5, 3}, Options(true, false, 0)));
const ExampleRegistration kBackwardPacks(Backward("packs", {2, 3, 8, 2},
                                                  Options(false, true, 0.5)));
const ExampleRegistration kBackwardWide(Backward("wide", {2, 11, 40}, Options(false, true, 0.5)));
const ExampleRegistration kBackwardChunks(Backward("chunks", {2, 4100, 6},
                                                   Options(true, false, 1)));

}  // namespace
}  // namespace plimsoll::ops
