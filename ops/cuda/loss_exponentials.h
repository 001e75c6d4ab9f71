// Cross-entropy whose softmax needs no pass over the logits, in bf16 and fp16 on Hopper. For each
// row of x, the product l = x·weightᵀ computes the logits l but does not store them. Instead the
// product stores
//
//   e[v] = 2^(log2 e · (l[v] − c) − 32),  where c is the logit of the row's target,
//
// and the sum of the unrounded e over each tile of the product. An earlier kernel computes c. With
// s = Σ e
//
//   loss = log(2^32 s),  lse = c + loss,  softmax(l) = e / s
//
// When e[target] is set to 2^-32 − s, a row of e becomes s times the gradient of the row's logits.
// Two products read e afterwards, and correct for s by scaling rows: the gradient of the weight is
// the product of e and scaled rows of x, and the rows of the gradient of x are scaled after the
// product.
//
// e is bf16 whatever the type of x and weight. Its relative rounding error does not depend on its
// size, because bf16 has the exponents of float32. The two products that read e take their other
// operand in bf16, too: the scaled rows of x, and in fp16 a copy of the weight. A value of dx
// beyond fp16's range becomes infinity, which a dynamic loss scale detects. A value of e below
// 2^-94 of the target's e becomes zero. s may reach 2^94, which is a loss of 87 nats. A row with a
// larger s is computed again by a slower path, relative to the row's largest logit. This path reads
// the weight twice per row.
//
// An ignored row is computed as if its target were 0, but contributes nothing, because its scale
// is 0.
//
// If the vocabulary is sharded among ranks, the ranks all-reduce three values for each row:
// - c, by a sum to which only the rank that has the target contributes;
// - the largest logit, by a maximum over the ranks on which the row is out of range. If there are
//   such ranks, all ranks compute the row again relative to this logit;
// - s, by a sum.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "graph/dtype.h"
#include "ops/collectives/vocabulary_shard.h"

namespace plimsoll::ops {

// The arguments for a chunk of rows.
struct LossExponentials {
  graph::DType stored;  // type of x, weight and dx: bf16 or fp16
  const void* x;        // the chunk's rows
  const void* weight;
  // [count], like losses and lse: the targets of the chunk's rows. A row with a negative target is
  // ignored.
  const int32_t* targets;
  const float* scale;  // nullptr if each row has its own factor (`dloss` by row)
  // nullptr if no gradients are requested; exponentials are then not stored. With factors by row:
  // dlogp, [count].
  const float* dloss;
  float* losses;       // loss of each row; may be nullptr
  float* lse;          // lse of each row; may be nullptr
  int64_t count;       // rows
  int64_t width;       // a multiple of 8
  int64_t vocabulary;  // number of rows of weight
  int64_t first;       // the token of the first row of weight
  int64_t whole;       // the vocabulary of all ranks
  float most_sum;      // the largest sum of exponentials on one rank that is in range

  float* references;            // [count]: c
  float* sums;                  // [tiles of kLossTileColumns, count]
  __nv_bfloat16* exponentials;  // [count] rows of `vocabulary` at distances of `stride`
  int64_t stride;
  float* factors;         // [count]: dloss · scale / s, or −dlogp / s; 0 for ignored rows
  __nv_bfloat16* scaled;  // [count, width]: x times its factor
  // For a split vocabulary, with [count] elements each:
  float* largest;  // logit of a row that is out of range; of others minus infinity
  float* totals;   // s
};

// most_sum for this number of ranks, so that the sum over them is in range, too.
inline float MostLossSum(int ranks) { return 0x1p+94f / static_cast<float>(ranks); }

// For a GPU of compute capability 9.0: whether this build has code for sm_90a, not just for sm_90,
// and the copy engine can read these operands.
bool CanUseLossExponentials(const LossExponentials& loss);

// Computes everything except the products that make gradients. `by_row`: each row has its own
// dlogp, which replaces −scale · dloss.
void ComputeLossExponentials(const LossExponentials& loss, bool by_row,
                             const VocabularyShard& shard, int multiprocessors,
                             cudaStream_t stream);

// dx[count, width] = product · factor of the row. dx has the type `stored` and is aligned to 16
// bytes.
void ScaleLossRows(const LossExponentials& loss, const float* product, void* dx,
                   cudaStream_t stream);

// Converts the weight, which is fp16, to bf16 in `copy`.
void CopyLossWeight(const LossExponentials& loss, __nv_bfloat16* copy, cudaStream_t stream);

}  // namespace plimsoll::ops
