// The output layer of a language model and its loss in one op. The logits never exist completely:
// they are computed, and recomputed in the backward pass, for a chunk of rows at a time.
//
//   logits = x[...,D] · weight[V,D]ᵀ (+ bias[V]), with a soft cap c then c · tanh(logits / c)
//   nll[r] = log Σ_v exp(logits[r,v]) − logits[r, targets[r]]
//   loss   = scale · Σ nll over the rows whose target is not negative (-100 marks ignored ones)
//
// targets i32[...] in [..., V); scale f32[] (1 / tokens of the step); x, weight, bias, dx: one
// float dtype S. loss, lse, dloss, dweight, dbias and the tensors added to them have its compute
// type, which is also used for logits and softmax. The gradient of the logits is rounded to S,
// because it is the operand of two products. A target ≥ V is an InternalError when the op runs:
// code that reads targets checks them.
//
//   linear_cross_entropy           (x, weight, targets, scale, bias?) → loss[], lse?[rows]
//   linear_cross_entropy_backward  (x, weight, targets, scale, lse, dloss[], acc_weight?, bias?,
//                                  acc_bias?, rng?) → dx?[...,D], dweight?[V,D], dbias?[V]
//   linear_cross_entropy_train     (x, weight, targets, scale, dloss[], acc_weight?, bias?,
//                                  acc_bias?, rng?) → loss[], dx?, dweight?, dbias?; without a
//                                  bias, dbias is empty. It does both in one pass over the
//                                  chunks: three products instead of four, and the same bits
//
// A soft cap is the attribute "softcap" of the three ops; without a soft cap they don't have it.
//
// With the attribute "low_gradient" (graph/op.h) dweight and acc_weight are bf16. On a GPU each
// chunk then rounds its sum stochastically; on the CPU only the last chunk does.
//
// On a GPU a chunk's logits are stored as S; softmax and loss are computed from the stored values
// in float32 (as PyTorch's autocast does), and a target ≥ V makes the loss NaN. In bf16 and fp16 on
// Hopper, where TakesLossExponentials() says so, the loss is computed from logits in float32, and
// their exponentials are rounded to bf16 instead (ops/cuda/loss_exponentials.h); the backward op
// then recomputes lse. In fp16 the products that make gradients then have operands in bf16.
//
// lse[r] = log Σ exp(logits[r]) is passed from the forward op to the backward op. acc_weight may be
// the memory of dweight, acc_bias that of dbias. The chunk size is a function of the shape and the
// compute type.
//
// With the attribute "axis" (ops/collectives/vocabulary_shard.h) weight, bias and their gradients
// have this rank's rows, V/R of R ranks. x and targets are unsharded and the same on all ranks. For
// each chunk the ranks combine the results for their own logits by all-reduces of a few numbers per
// row:
//
//   m = max over ranks of m_k,  m_k = max logits of rank k
//   lse = m + log Σ over ranks of exp(m_k − m) · Σ_v exp(logits[v] − m_k)
//   logits[target] = Σ over ranks, to which only the one that has the target adds
//
// loss and lse are those of the full vocabulary, with the same bits on all ranks. dweight and dbias
// are the gradients of this rank's rows. dx is one addend: the gradient is Σ over ranks of dx,
// which another op computes. All ranks call the same collectives, whatever the data is.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/compute_capability.h"
#include "graph/builder.h"
#include "graph/dtype.h"

namespace plimsoll::ops {

// Returns the loss. softcap: c; 0 means no cap.
graph::Value LinearCrossEntropy(graph::Builder& g, graph::Value x, graph::Value weight,
                                graph::Value targets, graph::Value scale,
                                graph::Value bias = graph::kNoTensor, std::string_view name = "",
                                double softcap = 0);

// The attribute "softcap"; 0 means no cap.
double LossSoftcap(const graph::Attributes& attributes);

// The number of rows of logits that exist at a time, in the compute type with `element_size` bytes:
// at most the larger of 100 MiB and 128 rows, so that the products are efficient. Chunks are
// about equal.
int64_t LossChunkRows(int64_t rows, int64_t vocabulary, int64_t element_size);

// Whether such a GPU, which must be able to (Hopper), stores exponentials instead of logits.
bool TakesLossExponentials(int64_t vocabulary, int64_t width, graph::DType stored, bool bias,
                           ComputeCapability gpu = {});

struct LossOptions {
  bool split = false;  // the vocabulary is sharded among ranks
  bool bias = false;
  bool low_gradient = false;  // dweight is in bf16
  bool dx = false;            // dx is requested
  bool softcap = false;       // logits have a soft cap; then no exponentials are stored
  ComputeCapability gpu = {};
};

// The layout of the CUDA kernels' workspace; a function of the shape, of S, and of the options.
struct CudaLossLayout {
  int64_t chunk;   // number of rows of logits that exist at a time
  int64_t stride;  // elements between rows of logits: a multiple of 128 bytes
  // Offsets in bytes; logits are at 0.
  int64_t losses_at;
  // Set only if TakesLossExponentials(). `weight_at`, bf16[vocabulary,width], is only for dx in
  // fp16.
  int64_t references_at, sums_at, factors_at, scaled_at, product_at, weight_at;
  int64_t parts_at;  // f32[kLossPartFloats,chunk], only for a sharded vocabulary
  // With a bias: its gradient so far, f32[stride], and the workspace of column sums.
  int64_t bias_sums_at, column_sums_at;
  int64_t wide_at;  // with low_gradient: LowGradient::wide (ops/cuda/products/low_gradient.h)
  int64_t gemm_at, bytes;
};
CudaLossLayout LayOutCudaLoss(int64_t rows, int64_t vocabulary, int64_t width, graph::DType stored,
                              LossOptions options = {});

// The number of floats that the ranks combine for each row.
inline constexpr int64_t kLossPartFloats = 4;

// The number of columns of logits that share a sum.
inline constexpr int64_t kLossTileColumns = 256;

}  // namespace plimsoll::ops
