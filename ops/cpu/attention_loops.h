// The inner loops of attention: softmax(q·kᵀ / divisor)·v blockwise, for one head at a time and
// without ever holding a T×T matrix. T sequence, hd values of a head.
//
// Dao 2023, "FlashAttention-2", algorithms 1 and 2. Nothing is allocated: the caller provides
// scratch. Results depend only on the operands; AVX2 and AVX-512 give the same bits.
//
// S is the type in which q, k, v and out are stored: float, double, BFloat16 or Float16. 16-bit
// values become float when they are copied into tiles, all arithmetic is in float, and results are
// rounded once when they are stored.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/low_precision.h"
#include "base/philox.h"

namespace plimsoll::cpu {

template <typename S>
using AttentionCompute = std::conditional_t<std::is_same_v<S, double>, double, float>;

// Scales the kept probabilities and drops the others, by the draws that base/dropout_draws.h gives
// to scores.
template <typename T>
struct AttentionDropout {
  const PhiloxStream* stream = nullptr;  // stream of random numbers; nullptr without dropout
  int64_t row = 0;                       // batch row · heads + head, where heads are those of all
                                         // ranks
  uint32_t threshold = 0;
  T keep_scale = 1;
};

// The most queries of a forward task.
inline constexpr int64_t kAttentionQueries = 128;

// A forward task. Rows of q, k and v (one per position, hd values each) are `stride` values apart,
// rows of out `out_stride`. Causal: query i sees the keys j ≤ i. Only the first `length` of T
// positions exist; later ones are neither read nor written.
//
// With `positions` or a window, which need causal, query i sees the keys from
// i − min(positions[i], window − 1) on. This first key never decreases with i: positions[i] is 0 or
// positions[i − 1] + 1. Tiles of keys that no query of a tile sees are skipped.
template <typename S>
struct AttentionForward {
  using T = AttentionCompute<S>;
  const S* q;
  const S* k;
  const S* v;
  int64_t stride;
  S* out;
  int64_t out_stride;
  T* lse;            // [T], log Σ exp of the scores; nullptr if not requested
  int64_t sequence;  // T
  int64_t length;
  int64_t head;
  bool causal;
  const int32_t* positions;  // [T], the position of each token in its document; nullptr: one
                             // document
  int64_t window;            // the most keys that a query sees; 0 means no window
  double divisor;            // scores are q·k / divisor
  double softcap;            // c: scores become c · tanh(score / c); 0 means no cap
  int64_t query_begin;       // a multiple of kAttentionQueries
  int64_t query_end;         // at most kAttentionQueries later
  AttentionDropout<T> dropout;
};

// A backward task: one key-value head with the query heads that share it. Head h has its queries at
// q + h·hd, its lse at lse + h·T, and the draws of row dropout.row + h.
template <typename S>
struct AttentionBackward {
  using T = AttentionCompute<S>;
  const S* q;
  const S* k;
  const S* v;
  int64_t stride;
  const S* out;
  const S* dout;
  int64_t out_stride;
  const T* lse;
  S* dq;
  S* dk;
  S* dv;  // rows are `stride` apart, like those of q, k, v
  int64_t heads;
  int64_t sequence;  // T
  int64_t length;
  int64_t head;
  bool causal;
  const int32_t* positions;  // [T], the position of each token in its document; nullptr: one
                             // document
  int64_t window;            // 0 means no window
  double divisor;            // scores are q·k / divisor
  double softcap;            // c: scores become c · tanh(score / c); 0 means no cap
  AttentionDropout<T> dropout;
};

// Bytes of scratch for one task, a multiple of 64. Scratch must be aligned to 64 bytes. The element
// type is AttentionCompute<S>.
int64_t AttentionForwardScratch(int64_t head, int64_t element_size);
int64_t AttentionBackwardScratch(int64_t sequence, int64_t head, int64_t element_size);

// These run on the calling thread, with the instruction set of ActiveGemmKernel().
template <typename S>
void RunAttention(const AttentionForward<S>& task, void* scratch);
template <typename S>
void RunAttention(const AttentionBackward<S>& task, void* scratch);

extern template void RunAttention(const AttentionForward<float>&, void*);
extern template void RunAttention(const AttentionForward<double>&, void*);
extern template void RunAttention(const AttentionForward<BFloat16>&, void*);
extern template void RunAttention(const AttentionForward<Float16>&, void*);
extern template void RunAttention(const AttentionBackward<float>&, void*);
extern template void RunAttention(const AttentionBackward<double>&, void*);
extern template void RunAttention(const AttentionBackward<BFloat16>&, void*);
extern template void RunAttention(const AttentionBackward<Float16>&, void*);

}  // namespace plimsoll::cpu

// The functions that each instruction set provides. Internal to ops/cpu/attention_loops*.
namespace plimsoll::cpu::internal {

// The widest panel of queries (two registers) in bytes. Sizes of scratch are multiples of it, so
// that they are equal for every instruction set.
inline constexpr int64_t kPanelBytes = 128;
// Keys in a tile, and queries in a tile of the backward pass.
inline constexpr int64_t kTile = 64;

template <typename S>
struct AttentionKernels {
  using T = AttentionCompute<S>;
  void (*forward)(const AttentionForward<S>& task, T* scratch);
  void (*backward)(const AttentionBackward<S>& task, T* scratch);
};

template <typename S>
const AttentionKernels<S>& Avx2Attention();
template <typename S>
const AttentionKernels<S>& Avx512Attention();

template <>
const AttentionKernels<float>& Avx2Attention<float>();
template <>
const AttentionKernels<double>& Avx2Attention<double>();
template <>
const AttentionKernels<BFloat16>& Avx2Attention<BFloat16>();
template <>
const AttentionKernels<Float16>& Avx2Attention<Float16>();
template <>
const AttentionKernels<float>& Avx512Attention<float>();
template <>
const AttentionKernels<double>& Avx512Attention<double>();
template <>
const AttentionKernels<BFloat16>& Avx512Attention<BFloat16>();
template <>
const AttentionKernels<Float16>& Avx512Attention<Float16>();

}  // namespace plimsoll::cpu::internal
