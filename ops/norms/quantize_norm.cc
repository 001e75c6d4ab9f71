#include "ops/norms/quantize_norm.h"

#include <string>
#include <vector>

#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/quantize_workspace.h"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::OpRegistry;
using graph::TensorType;
using namespace quantize_norm;

// The op of the norm. Throws InternalError unless the call has the inputs that the norm needs.
const graph::OpDef& NormOf(const OpCall& call) {
  const std::string& of = call.attributes.GetWord("of");
  Check(IsQuantizedNorm(of), call, "makes no codes of '" + of + "'");
  Check(call.has_input(kAddend) == NormAdds(of), call, "norms of sums, and no others, add");
  Check(!call.has_input(kBias) || NormHasMean(of), call, "RMS norms have no bias");
  Check(!HasUnitOffset(call.attributes) || !NormHasMean(of), call,
        "layer norms have no unit offset");
  return OpRegistry::Get().Require(of);
}

std::vector<const TensorType*> NormInputs(const OpCall& call) {
  std::vector<const TensorType*> inputs = {&call.input(kX)};
  if (call.has_input(kAddend)) inputs.push_back(&call.input(kAddend));
  inputs.push_back(&call.input(kWeight));
  if (call.has_input(kBias)) inputs.push_back(&call.input(kBias));
  return inputs;
}

std::vector<TensorType> Infer(const OpCall& call) {
  const graph::OpDef& norm = NormOf(call);
  norm.infer({norm, NormInputs(call), {}, call.attributes});  // runs the norm's checks
  const TensorType& y = call.input(kX);
  Check(graph::IsLowPrecision(y.dtype), call, "takes bf16 or f16");
  Check(call.attributes.GetWord("dtype") == "e4m3", call, "makes codes in e4m3");
  const TensorType number{DType::kFloat32, {}};
  const TensorType* const inputs[] = {&y, &number, nullptr, &call.input(kExpected)};
  const graph::OpDef& quantize = OpRegistry::Get().Require("quantize");
  std::vector<TensorType> types = quantize.infer({quantize, inputs, {}, call.attributes});
  const TensorType statistic{graph::ComputeType(y.dtype), {y.shape.rows()}};
  types.resize(kLargest);
  types.insert(types.end(), {number, statistic, statistic});
  if (call.has_input(kAddend)) types.push_back(y);
  return types;
}

graph::Cost CostOfBoth(const OpCall& call) {
  const graph::OpDef& norm = NormOf(call);
  const double flops = graph::CostOf({norm, NormInputs(call), {}, call.attributes}).flops;
  return {flops + 2 * static_cast<double>(call.input(kX).shape.elements()), ArgumentBytes(call)};
}

// The op is made after activations have been tagged and recomputed, so it needs no traits for these
// passes.
const graph::OpRegistration kQuantizeNorm({
    .name = "quantize_norm",
    .inputs = {{"x"}, {"addend", true}, {"weight"}, {"bias", true}, {"expected"}},
    .outputs = {{"transposed", true},
                {"codes", true},
                {"scale", true},
                {"largest", true},
                {"mean", true},
                {"rstd", true},
                {"sum", true}},
    .infer = &Infer,
    .gradient = {},
    .cost = &CostOfBoth,
    .in_place = {{kX, kSum}, {kAddend, kSum}},
});

// If the sum is not requested, it is in the workspace, after the words for largest magnitudes.
const CudaWorkspaceRegistration kWorkspace("quantize_norm", [](const OpCall& call) {
  const bool adds = call.has_input(kAddend) && !call.has_output(kSum);
  return kLargestWordsBytes + (adds ? call.input(kX).bytes() : 0);
});

}  // namespace
}  // namespace plimsoll::ops
