#include <string>

#include "ops/fusions.h"
#include "ops/linear/quantize_fusion.h"
#include "ops/norms/quantize_norm.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;

// Whether the norm drops the term that it adds (ops/norms/norm_dropout.h).
bool NormDrops(const Node& norm) {
  return NormAdds(norm.op->name) &&
         ArgumentAt(norm.inputs, NormHasMean(norm.op->name) ? 4 : 3) != kNoTensor;
}

std::optional<Node> NormWithCodes(const graph::Program& program, const ReadAsCodes& found) {
  const Node &norm = found.maker, &codes = found.quantize;
  const std::string& of = norm.op->name;
  const size_t adds = NormAdds(of) ? 1 : 0, has_mean = NormHasMean(of) ? 1 : 0;
  if (!IsQuantizedNorm(of) || norm.outputs[adds] != found.y || NormDrops(norm) ||
      !graph::IsLowPrecision(program.tensor(found.y).type.dtype) ||
      codes.attributes.GetWord("dtype") != "e4m3" ||
      codes.inputs[quantize::kAccSums] != kNoTensor ||
      ArgumentAt(codes.outputs, quantize::kSums) != kNoTensor) {
    return std::nullopt;
  }
  Node fused = norm;
  fused.op = &graph::OpRegistry::Get().Require("quantize_norm");
  fused.made_by = "fuse";
  // The arguments are in the order of quantize_norm::Input and Output.
  fused.inputs = {norm.inputs[0], adds != 0 ? norm.inputs[1] : kNoTensor, norm.inputs[1 + adds],
                  has_mean != 0 ? ArgumentAt(norm.inputs, 2 + adds) : kNoTensor,
                  codes.inputs[quantize::kExpected]};
  fused.outputs = codes.outputs;
  fused.outputs.resize(quantize_norm::kLargest, kNoTensor);
  fused.outputs.push_back(found.largest);
  fused.outputs.push_back(has_mean != 0 ? ArgumentAt(norm.outputs, 1 + adds) : kNoTensor);
  fused.outputs.push_back(ArgumentAt(norm.outputs, 1 + adds + has_mean));
  if (adds != 0) fused.outputs.push_back(norm.outputs[0]);
  for (const auto& [name, value] : codes.attributes.entries()) fused.attributes.Set(name, value);
  fused.attributes.Set("of", of);
  return fused;
}

}  // namespace

int FuseQuantizedNorms(graph::Program& program) {
  return FuseCodes(program,
                   [&](const ReadAsCodes& found) { return NormWithCodes(program, found); });
}

}  // namespace plimsoll::ops
