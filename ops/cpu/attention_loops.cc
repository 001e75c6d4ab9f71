#include "ops/cpu/attention_loops.h"

#include "ops/cpu/packed_gemm.h"

namespace plimsoll::cpu {
namespace {

using internal::AttentionKernels;
using internal::kTile;

template <typename S>
const AttentionKernels<S>& Active() {
  return ActiveGemmKernel() == GemmKernel::kAvx512 ? internal::Avx512Attention<S>()
                                                   : internal::Avx2Attention<S>();
}

// The length of a row of a head's values, padded to full panels.
int64_t PaddedHead(int64_t head, int64_t element_size) {
  const int64_t panel = internal::kPanelBytes / element_size;
  return (head + panel - 1) / panel * panel;
}

}  // namespace

// The scratch holds tiles of k and v; panels of q and out; a panel of scores; maximum and sum of
// each query, and a factor for each lane.
int64_t AttentionForwardScratch(int64_t head, int64_t element_size) {
  const int64_t panel = internal::kPanelBytes / element_size;
  const int64_t padded = PaddedHead(head, element_size);
  return element_size * (2 * kTile * padded + 2 * kAttentionQueries * padded + kTile * panel +
                         2 * kAttentionQueries + panel);
}

// The scratch holds dk and dv of the head; tiles of q, k, v, dout and dq; q and dout transposed;
// probabilities and gradients of scores; lse and delta of each query.
int64_t AttentionBackwardScratch(int64_t sequence, int64_t head, int64_t element_size) {
  const int64_t padded = PaddedHead(head, element_size);
  const int64_t keys = (sequence + kTile - 1) / kTile * kTile;
  return element_size * (2 * keys * padded + 7 * kTile * padded + 2 * kTile * kTile + 2 * kTile);
}

template <typename S>
void RunAttention(const AttentionForward<S>& task, void* scratch) {
  Active<S>().forward(task, static_cast<AttentionCompute<S>*>(scratch));
}

template <typename S>
void RunAttention(const AttentionBackward<S>& task, void* scratch) {
  Active<S>().backward(task, static_cast<AttentionCompute<S>*>(scratch));
}

template void RunAttention(const AttentionForward<float>&, void*);
template void RunAttention(const AttentionForward<double>&, void*);
template void RunAttention(const AttentionForward<BFloat16>&, void*);
template void RunAttention(const AttentionForward<Float16>&, void*);
template void RunAttention(const AttentionBackward<float>&, void*);
template void RunAttention(const AttentionBackward<double>&, void*);
template void RunAttention(const AttentionBackward<BFloat16>&, void*);
template void RunAttention(const AttentionBackward<Float16>&, void*);

}  // namespace plimsoll::cpu
