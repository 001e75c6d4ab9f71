#include "ops/fusions.h"
#include "ops/linear/quantize_activation.h"
#include "ops/linear/quantize_fusion.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;

std::optional<Node> ActivationWithCodes(const ReadAsCodes& found) {
  const Node& activation = found.maker;
  if (!IsQuantizedActivation(activation.op->name)) return std::nullopt;
  Node fused = found.quantize;
  fused.op = &graph::OpRegistry::Get().Require("quantize_activation");
  fused.made_by = "fuse";
  fused.inputs[0] = activation.inputs[0];
  fused.inputs[1] = ArgumentAt(activation.inputs, 1);
  for (const auto& [name, value] : activation.attributes.entries()) {
    fused.attributes.Set(name, value);
  }
  fused.attributes.Set("of", activation.op->name);
  fused.outputs.resize(quantize::kSums + 1, kNoTensor);
  fused.outputs.push_back(found.largest);
  return fused;
}

}  // namespace

int FuseQuantizedActivations(graph::Program& program) {
  return FuseCodes(program, &ActivationWithCodes);
}

}  // namespace plimsoll::ops
