// Cross-entropy whose softmax takes no pass over the logits, in bf16 on Hopper. The product that
// makes the logits l = x·weightᵀ of a row writes, instead of them,
//
//   e[v] = 2^(log2 e · (l[v] − c) − 32),  c the logit of the row's target, found before,
//
// and the sums of e, unrounded, over each of its tiles. With s = Σ e
//
//   loss = log(2^32 s),  lse = c + loss,  softmax(l) = e / s
//
// and e[target] ← 2^-32 − s turns a row of e into s times the gradient of its logits. The products
// that read it need nothing else but scaled rows: of x for the gradient of the weight, of the
// result for the gradient of x.
//
// What a bf16 e loses does not depend on its size: it has float32's exponents. Values below 2^-94
// of the target's become zero. s has room up to 2^94, a loss of 87 nats; rows beyond are computed
// again, relative to their largest logit and at leisure: a row takes two passes over the weight.
//
// Ignored rows are computed as if their target were 0, and count nothing: their scale is 0.
//
// Of a vocabulary that is split among ranks, these all-reduce what they know of each row: c, to
// which only the rank that has the target adds; the largest logit of those that found the row out
// of range, so that all compute it again, relative to that one; s.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/vocabulary_shard.h"

namespace plimsoll::ops {

// Of a chunk of rows.
struct LossExponentials {
  const __nv_bfloat16* x;  // the chunk's rows
  const __nv_bfloat16* weight;
  const int32_t* targets;  // of the chunk, as losses and lse; negative: ignored
  const float* scale;
  const float* dloss;  // nullptr: no gradients, exponentials are not stored
  float* losses;       // or nullptr
  float* lse;          // or nullptr
  int64_t count;       // rows
  int64_t width;       // a multiple of 8
  int64_t vocabulary;  // rows of weight
  int64_t first;       // the token of the first of them
  int64_t whole;       // the vocabulary, of all ranks
  float most_sum;      // of a rank's exponentials in range

  float* references;            // [count]: c
  float* sums;                  // [tiles of kLossTileColumns, count]
  __nv_bfloat16* exponentials;  // [count] rows of `vocabulary` at distances of `stride`
  int64_t stride;
  float* factors;         // [count]: dloss · scale / s, 0 for ignored rows
  __nv_bfloat16* scaled;  // [count, width]: x times its factor
  // Of a split vocabulary, [count] each:
  float* largest;  // logit of a row that is out of range; of others minus infinity
  float* totals;   // s
};

// most_sum, of so many ranks: the sum over them is in range too.
inline float MostLossSum(int ranks) { return 0x1p+94f / static_cast<float>(ranks); }

// On a GPU of compute capability 9.0: has this build code for sm_90a, not just for sm_90, and can
// the copy engine read these operands?
bool CanUseLossExponentials(const LossExponentials& loss);

// All of it but the products that make gradients.
void ComputeLossExponentials(const LossExponentials& loss, const VocabularyShard& shard,
                             int multiprocessors, cudaStream_t stream);

// dx[count, width] = product · factor of the row; dx is aligned to 16 bytes.
void ScaleLossRows(const LossExponentials& loss, const float* product, __nv_bfloat16* dx,
                   cudaStream_t stream);

}  // namespace plimsoll::ops
