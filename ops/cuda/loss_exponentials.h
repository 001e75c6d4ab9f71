// Cross-entropy whose softmax needs no pass over the logits, in bf16 and fp16 on Hopper. The
// product that computes the logits l = x·weightᵀ of a row writes, instead of them,
//
//   e[v] = 2^(log2 e · (l[v] − c) − 32),  c the logit of the row's target, computed before,
//
// and the sums of e, unrounded, over each of its tiles. With s = Σ e
//
//   loss = log(2^32 s),  lse = c + loss,  softmax(l) = e / s
//
// and e[target] ← 2^-32 − s turns a row of e into s times the gradient of its logits. The products
// that read it then need only scaled rows: of x for the gradient of the weight, of the result for
// the gradient of x.
//
// e is bf16 for all types of x and weight. Its relative rounding error does not depend on its size,
// because bf16 has float32's exponents. The products that read e take their other operand in bf16,
// too: the scaled rows of x, and in fp16 a copy of the weight. A dx beyond fp16's range is
// infinite, which a dynamic loss scale detects. Values below 2^-94 of the target's become zero. s
// may reach 2^94, a loss of 87 nats. Rows beyond that are computed again, relative to their largest
// logit, by a slower path that takes two passes over the weight per row.
//
// Ignored rows are computed as if their target were 0, but have no effect: their scale is 0.
//
// With a vocabulary that is sharded among ranks, the ranks all-reduce for each row: c, to which
// only the rank that has the target adds; the largest logit if the row is out of range on any rank,
// so that all ranks compute it again relative to that logit; and s.
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
  const int32_t* targets;  // of the chunk, like losses and lse; negative: ignored
  const float* scale;      // nullptr if each row has its own dlogp
  // nullptr: no gradients, exponentials are not stored. By row: dlogp, [count].
  const float* dloss;
  float* losses;       // or nullptr
  float* lse;          // or nullptr
  int64_t count;       // number of rows
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
  // With a sharded vocabulary, [count] each:
  float* largest;  // the largest logit of a row that is out of range; minus infinity for other rows
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
