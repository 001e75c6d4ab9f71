// Examples of what adversarial training needs: binary cross-entropy and spectral normalization, in
// all ways in which kernels divide them.
#include <string>
#include <utility>

#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

ExampleInput Scalar() { return {{}, Fill::kPositive}; }

Example Loss(std::string label, graph::Shape logits, double target) {
  return {.op = "binary_cross_entropy_with_logits",
          .label = std::move(label),
          .inputs = {{logits}, Scalar()},
          .attributes = {{"target", target}},
          .float32_inputs = {1}};
}
Example LossBackward(std::string label, graph::Shape logits, double target) {
  return {.op = "binary_cross_entropy_with_logits_backward",
          .label = std::move(label),
          .inputs = {{logits}, Scalar(), Scalar()},
          .attributes = {{"target", target}},
          .float32_inputs = {1},
          .compute_inputs = {2}};
}
// With targets; some logits have none.
Example OfTargets(Example example) {
  const size_t input = example.inputs.size();
  example.inputs.push_back({example.inputs[0].shape, Fill::kNumbers});
  example.float32_inputs.push_back(static_cast<int>(input));
  example.attributes = {};
  return example;
}

// Every fifth row has no label.
Example WithLabels(Example example) {
  const int64_t rows = example.inputs[0].shape.dim(0);
  if (example.attributes.Has("target")) example.inputs.push_back({{}, Fill::kAbsent});
  example.inputs.push_back({{rows}, Fill::kTargets, 3});
  return example;
}

const ExampleRegistration kReal(Loss("real", {3, 7, 5, 1}, 1));
const ExampleRegistration kFake(Loss("fake", {13}, 0));
const ExampleRegistration kOne(Loss("one", {1}, 0.9));
const ExampleRegistration kChunks(Loss("chunks", {2, 17, 1000}, 0.9));
const ExampleRegistration kEach(OfTargets(Loss("targets", {3, 7, 5}, 0)));
const ExampleRegistration kEachChunks(OfTargets(Loss("targets, chunks", {33000}, 0)));
const ExampleRegistration kLabels(WithLabels(Loss("labels", {12, 7, 5, 1}, 0.9)));
const ExampleRegistration kEachLabels(WithLabels(OfTargets(Loss("targets, labels", {70, 600}, 0))));

const ExampleRegistration kBackward(LossBackward("smoothed", {3, 7, 5, 1}, 0.9));
const ExampleRegistration kBackwardPacks(LossBackward("packs", {4, 1024, 9}, 1));
const ExampleRegistration kBackwardOne(LossBackward("one", {1}, 0));
const ExampleRegistration kBackwardEach(OfTargets(LossBackward("targets", {3, 7, 5}, 0)));
const ExampleRegistration kBackwardEachPacks(OfTargets(LossBackward("targets, packs", {2048}, 0)));
const ExampleRegistration kBackwardLabels(WithLabels(LossBackward("labels", {12, 7, 5, 1}, 0.9)));
const ExampleRegistration kBackwardEachLabels(WithLabels(OfTargets(LossBackward("targets, labels",
                                                                                {11, 400}, 0))));

graph::Shape Row(const graph::Shape& weight) { return graph::Shape(weight.dims().subspan(1)); }

Example Iteration(std::string label, graph::Shape weight) {
  return {.op = "power_iteration",
          .label = std::move(label),
          .inputs = {{weight}, {Row(weight)}},
          .float32_inputs = {1}};
}
// Positive numbers, whose σ is far from 0.
Example Norm(std::string label, graph::Shape weight) {
  return {.op = "spectral_norm",
          .label = std::move(label),
          .inputs = {{weight, Fill::kPositive},
                     {{weight.dim(0)}, Fill::kPositive},
                     {Row(weight), Fill::kPositive}},
          .float32_inputs = {1, 2}};
}
Example NormBackward(std::string label, graph::Shape weight, bool accumulates) {
  Example example = Norm(std::move(label), weight);
  example.op = "spectral_norm_backward";
  example.inputs.push_back(Scalar());
  example.inputs.push_back({weight});
  example.compute_inputs = {3, 4};
  if (accumulates) {
    example.inputs.push_back({weight});
    example.compute_inputs.push_back(5);
  }
  return example;
}

const ExampleRegistration kIteration(Iteration("", {5, 3, 3, 7}));
const ExampleRegistration kIterationPacks(Iteration("packs", {6, 4, 4, 16}));
const ExampleRegistration kIterationChunks(Iteration("chunks", {300, 520}));
const ExampleRegistration kIterationRow(Iteration("a row", {1, 1033}));
const ExampleRegistration kIterationColumn(Iteration("a column", {1100, 1}));

const ExampleRegistration kNorm(Norm("", {5, 3, 3, 7}));
const ExampleRegistration kNormPacks(Norm("packs", {6, 4, 4, 16}));
const ExampleRegistration kNormRow(Norm("a row", {1, 13}));
const ExampleRegistration kNormLarge(Norm("large", {40, 1028}));

const ExampleRegistration kNormBackward(NormBackward("", {5, 3, 3, 7}, false));
const ExampleRegistration kNormBackwardPacks(NormBackward("packs", {6, 4, 4, 16}, true));
const ExampleRegistration kNormBackwardLarge(NormBackward("large", {40, 1030}, true));

}  // namespace
}  // namespace plimsoll::ops
