#include "ops/loss/dice.h"

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/loss/dice_sums.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

// Checks logits, labels and weight, and returns the type of the sums.
TensorType CheckVoxels(const OpCall& call) {
  const TensorType& logits = call.input(0);
  Check(graph::IsFloat(logits.dtype) && logits.shape.rank() >= 2 && logits.shape.dim(-1) >= 2 &&
            logits.shape.dim(-1) <= kMostDiceClasses,
        call, "logits must be floating, [B,...,C], of 2 to 64 classes");
  Check(call.input(1) == TensorType{DType::kInt32, logits.shape.DropLast()}, call,
        "labels must be i32, one for each voxel");
  CheckFloat32Scalar(call, 2);
  return {graph::ComputeType(logits.dtype), {logits.shape.dim(0), logits.shape.dim(-1), 3}};
}

std::vector<TensorType> InferDice(const OpCall& call) {
  const TensorType sums = CheckVoxels(call);
  return {{sums.dtype, {}}, sums};
}

void DiceGradient(GradientContext& context) {
  if (!context.wants(0)) return;
  context.SetGradient(0,
                      context.builder().Emit1("dice_loss_backward",
                                              {context.input(0), context.input(1), context.input(2),
                                               context.output(1), context.output_gradient(0)},
                                              context.attributes()));
}

std::vector<TensorType> InferDiceBackward(const OpCall& call) {
  const TensorType sums = CheckVoxels(call);
  Check(call.input(3) == sums, call, "sums must be [B,C,3] in the compute type of logits");
  Check(call.input(4) == TensorType{sums.dtype, {}}, call, "dloss must be a scalar");
  return {call.input(0)};
}

// The sums of a class, sums[b,c], are I, G and P (ops/loss/dice.h).
const OpRegistration kDiceLoss({
    .name = "dice_loss",
    .inputs = {{"logits"}, {"labels"}, {"weight"}},
    .outputs = {{"loss"}, {"sums", true}},
    .infer = &InferDice,
    .gradient = &DiceGradient,
    .cost = FlopsPerElement(8),
    .precision = {Precision::kLowStorage, "softmax, sums and the loss itself stay in float32"},
});

const OpRegistration kDiceLossBackward({
    .name = "dice_loss_backward",
    .inputs = {{"logits"}, {"labels"}, {"weight"}, {"sums"}, {"dloss"}},
    .outputs = {{"dlogits"}},
    .infer = &InferDiceBackward,
    .gradient = {},
    .cost = FlopsPerElement(12),
    .in_place = {{0, 0}},
});

const CudaWorkspaceRegistration kDiceLossWorkspace("dice_loss", [](const OpCall& call) {
  const DiceSums sums(call.input(0).shape);
  return (sums.partials() + sums.totals()) * static_cast<int64_t>(sizeof(float));
});

}  // namespace

Value DiceLoss(graph::Builder& g, Value logits, Value labels, Value weight,
               const DiceOptions& options, std::string_view name) {
  return g.Emit1("dice_loss", {logits, labels, weight},
                 {{"include_background", options.include_background},
                  {"squared_pred", options.squared_pred},
                  {"smooth_nr", options.smooth_nr},
                  {"smooth_dr", options.smooth_dr},
                  {"lambda_dice", options.lambda_dice},
                  {"lambda_ce", options.lambda_ce}},
                 name);
}

}  // namespace plimsoll::ops
