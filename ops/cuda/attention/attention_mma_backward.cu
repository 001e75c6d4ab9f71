#include <algorithm>

#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_mma_backward.cuh"

namespace plimsoll::ops {
namespace {

// The parts' scratch memory, which begins after δ.
template <typename T>
KeyParts PartsOf(const AttentionBackwardArguments<T>& a) {
  const MmaKeyParts parts(a.batch, a.sequence, a.heads, a.kv_heads, a.head);
  char* const memory =
      reinterpret_cast<char*>(a.delta) + AttentionLseBytes(a.batch * a.heads * a.sequence);
  return {.parts = static_cast<int>(parts.parts),
          .blocks = static_cast<int>(parts.blocks),
          .sums = reinterpret_cast<float4*>(memory),
          .counters = reinterpret_cast<int*>(memory + parts.sum_bytes)};
}

}  // namespace

template <typename T>
int64_t MmaBackwardMemory(int64_t head) {
  return std::max(MmaDqMemory<T>(head), MmaDkdvMemory<T>(head));
}

template <typename T>
void LaunchMmaBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream,
                       const ScoreSoftcap& softcap) {
  const KeyParts parts = PartsOf(a);
  LaunchMmaDq(a, parts, softcap, stream);
  LaunchMmaDkdv(a, parts, softcap, stream);
}

template int64_t MmaBackwardMemory<float>(int64_t);
template int64_t MmaBackwardMemory<__nv_bfloat16>(int64_t);
template int64_t MmaBackwardMemory<__half>(int64_t);
template void LaunchMmaBackward(const AttentionBackwardArguments<float>&, cudaStream_t,
                                const ScoreSoftcap&);
template void LaunchMmaBackward(const AttentionBackwardArguments<__nv_bfloat16>&, cudaStream_t,
                                const ScoreSoftcap&);
template void LaunchMmaBackward(const AttentionBackwardArguments<__half>&, cudaStream_t,
                                const ScoreSoftcap&);

}  // namespace plimsoll::ops
