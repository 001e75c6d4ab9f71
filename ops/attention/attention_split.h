// How attention_backward is computed for 16-bit tensors. On Hopper, our own kernels, which need
// almost no memory besides their tensors, take heads up to 256 wide. On other GPUs, which the plan
// doesn't know, wide heads go to cuDNN, in parts:
//
// cuDNN's deterministic attention_backward keeps the gradients of all scores: 2·T² bytes for each
// head. So it runs on some sequences at a time, or for long sequences on some heads, with two parts
// side by side on two streams; the workspace then grows only with the number of tokens. (A single
// part that fills the GPU is no faster than two at a time: the memory-bound end of one runs beside
// the products of the other.)
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

// dk and dv of wider heads don't fit the registers of a warpgroup: attention_widest.h.
inline constexpr int64_t kHopperAttentionHead = 128;

// The workspace of cuDNN 9.19 on a GPU of compute capability 9.0, determined at many shapes: the
// gradients of scores, padded to its tiles, a float for each query of a head, and, with grouped
// queries, dk and dv of each query head.
inline int64_t CudnnBackwardBytes(int64_t sequences, int64_t length, int64_t heads,
                                  int64_t kv_heads, int64_t head) {
  const int64_t scores = (length + 63) / 64 * 64 * ((length + 127) / 128 * 128);
  const int64_t shared = heads == kv_heads ? 0 : 4 * length * head;
  return sequences * heads * (2 * scores + 4 * length + shared) + 256;
}

struct AttentionSplit {
  int64_t sequences;   // of a part
  int64_t kv_heads;    // of a part: all of them unless one sequence is too large
  int64_t lanes;       // number of parts side by side
  int64_t lane_bytes;  // workspace of each
};

inline AttentionSplit SplitAttentionBackward(int64_t batch, int64_t length, int64_t heads,
                                             int64_t kv_heads, int64_t head) {
  constexpr int64_t kLanes = 2;
  // Five times the gradient of a layer's output in 16 bits, about as much as a transformer's MLP
  // needs in its backward pass; saving less than a few megabytes isn't worthwhile.
  const int64_t all = std::max<int64_t>(64 << 20, 20 * batch * length * heads * head);
  const int64_t group = heads / kv_heads;
  const auto bytes = [&](int64_t sequences, int64_t some_kv_heads) {
    return CudnnBackwardBytes(sequences, length, some_kv_heads * group, some_kv_heads, head);
  };
  // Parts of equal size, of at most `most` units, the same number for each lane.
  const auto part = [](int64_t units, int64_t most) {
    const int64_t parts = ((units + most - 1) / most + kLanes - 1) / kLanes * kLanes;
    return (units + parts - 1) / parts;
  };
  const int64_t lane = all / kLanes;
  AttentionSplit split{1, kv_heads, kLanes, 0};
  if (bytes(1, kv_heads) <= lane) {
    split.sequences = part(batch, lane / bytes(1, kv_heads));
  } else {
    split.kv_heads = part(kv_heads, std::max<int64_t>(1, lane / bytes(1, 1)));
  }
  const bool whole = split.sequences == batch && split.kv_heads == kv_heads;
  if (whole || bytes(split.sequences, split.kv_heads) > lane) split.lanes = 1;
  split.lane_bytes = (bytes(split.sequences, split.kv_heads) + 255) / 256 * 256;
  return split;
}

}  // namespace plimsoll::ops
