// Fusions: rewrites of a program (graph/fuse.h) that replace several ops by one that moves less
// memory. Each returns the number of its replacements. Unless a comment says otherwise, results
// keep their bits.
#pragma once

#include "graph/program.h"

namespace plimsoll::ops {

// Turns a loss and its backward op into one op that computes the logits once instead of twice.
//
// Replaces each linear_cross_entropy whose lse is read only by its linear_cross_entropy_backward by
// linear_cross_entropy_train, at the position of the forward op. The nodes that compute dloss and
// the given gradient move before it. A loss stays unchanged if its dloss depends on the loss
// itself, or if its operands or results are accessed between the two ops.
int FuseLossBackward(graph::Program& program);

// Turns the gradient of a linear layer's input and GELU's backward op into one op.
//
// Replaces each 16-bit linear_dx whose result is read only by a gelu_backward (tanh), as dy, by a
// linear_dx_gelu at the latter's position. On a GPU this leaves out one rounding, so results
// change; on the CPU they keep their bits.
int FuseGeluGradient(graph::Program& program);

// Lets activations and their gradients write 8-bit codes instead of a result that is only read as
// codes.
//
//   %y = swiglu(%gate_up)
//   %largest = largest_magnitude(%y)
//   %t, %codes, %scale, %sums = quantize(%y, %largest, %acc_sums, %expected) {index=3, …}
//
// becomes, at the position of the first,
//
//   %t, %codes, %scale, %sums, %largest = quantize_activation(%gate_up, _, %acc_sums, %expected)
//       {index=3, of="swiglu", …}
//
// which doesn't store y (ops/linear/quantize_activation.h), and the same with gelu and the
// gradients of both. Nothing else may read y, all are in one phase, and a scale that is expected
// from earlier steps is needed. Runs before activations are tagged: what waits, and is recomputed,
// are codes.
int FuseQuantizedActivations(graph::Program& program);

// Numbers that are made of codes for such an activation:
//
//   %x = dequantize(%kept, %scale) {dtype="bf16"}
//   … = quantize_activation(%x, …)
//
// becomes  … = quantize_activation(%kept, …, %scale) {a_dtype="bf16", …}, and %x isn't made unless
// something else reads it.
int FuseDequantized(graph::Program& program);

// Ops joined with a batch norm. The bits are the same: what was written between two ops is rounded
// as it would be in memory.
//
// The gradient of a norm and that of its statistics:
//
//   %d, %dmean, %dvariance, … = batch_norm_backward(%dy, %x, %mean, …)
//   %dx = batch_norm_statistics_backward(%x, %mean, %dmean, %dvariance, %d)
//
// becomes  %dx, _, _, … = batch_norm_backward(%dy, %x, %mean, …) {through_statistics=true}, which
// reads x and dy twice and writes dx once, where the two read and write seven times.
//
// A norm and what follows it at the end of a residual block:
//
//   %n = batch_norm(%x, …)
//   %s = add(%residual, %n)
//   %y = relu(%s)
//
// becomes  %y = batch_norm(%x, …, %residual) {relu=true}, which moves three tensors instead of
// seven.
//
// Its gradient, after the first fusion:
//
//   %d = relu_backward(%y, %dy)
//   %dx, _, _, … = batch_norm_backward(%d, %x, …) {through_statistics=true}
//
// becomes  %d, %dx, … = batch_norm_residual_backward(%dy, %positive, %x, …), whose sums make %d as
// they go, where a norm has made y = relu(norm + residual): it then says where y is positive,
// %y, %positive = batch_norm(…), so that the gradient reads one bit in place of each element of y.
int FuseBatchNormGradients(graph::Program& program);
int FuseBatchNormResiduals(graph::Program& program);
int FuseBatchNormResidualGradients(graph::Program& program);

// Turns an addition and the norm of its result into one op that reads the sum once.
//
// Replaces each `add` that is directly followed by a `layer_norm` or `rms_norm` of its result (with
// only views between them) by add_layer_norm or add_rms_norm, in the same phase. Runs after
// activations have been tagged and recomputed: a norm that is recomputed from a kept sum stays a
// plain norm. Tensors keep their lifetimes.
int FuseAddNorm(graph::Program& program);

// Lets norms take in the dropout next to them (ops/norms/norm_dropout.h).
//
// Runs after FuseAddNorm and before FuseRecomputedNorms. Two forms become one op each, in the same
// phase:
//
//   d = dropout(f);  sum, y = add_layer_norm(x, d)    where nothing else reads d
//   dx = layer_norm_backward(…);  df = dropout(dx)    dx is left out if nothing else reads it
//
// and the same with rms_norm. Collectives may be between the latter two.
int FuseNormDropout(graph::Program& program);

// Lets a norm's backward op also recompute the norm, where the backward pass needs it.
//
// Where a norm is recomputed (phase recompute) and its backward op follows, both become one
// layer_norm_with_backward or rms_norm_with_backward at the position of the backward op, which
// reads x once. Nodes that read the norm in between (the weight gradient of the layer after it)
// move right after it. If the statistics were recomputed too, the forward pass keeps them instead:
// 4 or 8 bytes per row. Left unchanged when the order matters to another node.
int FuseRecomputedNorms(graph::Program& program);

// Lets norms write 8-bit codes in place of a result that is only read as codes.
//
//   %sum, %y, %rstd = add_rms_norm(%a, %b, %weight)
//   %largest = largest_magnitude(%y)
//   %t, %codes, %scale, _ = quantize(%y, %largest, _, %expected) {index=3, …}
//
// becomes, at the position of the norm,
//
//   %t, %codes, %scale, %largest, _, %rstd, %sum = quantize_norm(%a, %b, %weight, _, %expected)
//       {index=3, of="add_rms_norm", …}
//
// which doesn't store y (ops/norms/quantize_norm.h), and the same with the other norms of rows.
// Nothing else may read y, the three ops must be in one phase, and `quantize` must have a scale
// that is expected from earlier steps. A norm with dropout stays unchanged. Runs after
// FuseRecomputedNorms, which needs the norms, and before FuseLargest.
int FuseQuantizedNorms(graph::Program& program);

// Lets the op that makes a tensor find its largest magnitude (OpDef::finds_largest), in place of a
// node largest_magnitude, which would read the tensor once more. Runs after the other fusions.
int FuseLargest(graph::Program& program);

}  // namespace plimsoll::ops
