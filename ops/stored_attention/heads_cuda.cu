// heads.cc has the shapes. A thread moves 16 bytes, or one element if the values of a head don't
// consist of packs of 16 bytes. Neighbouring threads have neighbouring bytes of the packed tensor,
// and of the other one within a head. Bytes: 2·n·s.
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kMoveThreads = 256;

// The packed tensor [B,T,(heads + 2·kv_heads)·hd] and its parts, in units that a thread moves. If
// the packed tensor has only queries, kv_heads is 0.
template <typename Unit, typename Index>
struct HeadsMove {
  Unit* packed;
  Unit *q, *k, *v;
  Index units, sequence, heads, kv_heads, head;
};

template <bool kPack, typename Unit, typename Index>
__global__ void __launch_bounds__(kMoveThreads) MoveHeadsKernel(const HeadsMove<Unit, Index> m) {
  const Index i = static_cast<Index>(blockIdx.x) * kMoveThreads + threadIdx.x;
  if (i >= m.units) return;
  const Index block_of_all = i / m.head, e = i - block_of_all * m.head;
  const Index blocks = m.heads + 2 * m.kv_heads;
  const Index token = block_of_all / blocks;
  Index h = block_of_all - token * blocks;
  const Index b = token / m.sequence, t = token - b * m.sequence;
  Unit* part = m.q;
  Index heads = m.heads;
  if (h >= m.heads) {
    heads = m.kv_heads;
    h -= m.heads;
    part = m.k;
    if (h >= heads) {
      h -= heads;
      part = m.v;
    }
  }
  Unit* const separate = part + ((b * heads + h) * m.sequence + t) * m.head + e;
  if constexpr (kPack) {
    m.packed[i] = *separate;
  } else {
    *separate = m.packed[i];
  }
}

// Moves to (kPack) or from the packed tensor: queries or, with kParts = 3, queries, keys and
// values.
template <bool kPack, size_t kParts>
void MoveHeads(const CudaContext& ctx) {
  const TensorRef& all = (kPack ? ctx.outputs : ctx.inputs)[0];
  const graph::Shape& shape = all.type.shape;
  if (shape.elements() == 0) return;
  const auto at = [&](size_t i) {
    return static_cast<char*>(i < kParts ? (kPack ? ctx.inputs : ctx.outputs)[i].data : nullptr);
  };
  const int64_t heads = ctx.attributes.GetInt("heads");
  const int64_t kv_heads = kParts == 1 ? 0 : ctx.attributes.GetInt("kv_heads");
  const int64_t bytes = all.type.bytes();
  const int64_t head_bytes = bytes / (shape.dim(0) * shape.dim(1) * (heads + 2 * kv_heads));
  const auto launch = [&]<typename Unit, typename Index>() {
    const int64_t units = bytes / static_cast<int64_t>(sizeof(Unit));
    const HeadsMove<Unit, Index> m = {
        .packed = static_cast<Unit*>(all.data),
        .q = reinterpret_cast<Unit*>(at(0)),
        .k = reinterpret_cast<Unit*>(at(1)),
        .v = reinterpret_cast<Unit*>(at(2)),
        .units = static_cast<Index>(units),
        .sequence = static_cast<Index>(shape.dim(1)),
        .heads = static_cast<Index>(heads),
        .kv_heads = static_cast<Index>(kv_heads),
        .head = static_cast<Index>(head_bytes / static_cast<int64_t>(sizeof(Unit)))};
    const auto blocks = static_cast<unsigned>((units + kMoveThreads - 1) / kMoveThreads);
    MoveHeadsKernel<kPack><<<blocks, kMoveThreads, 0, ctx.stream>>>(m);
    gpu::CheckLaunch("moving heads");
  };
  const auto move = [&]<typename Unit>() {
    // 32-bit indices are used if possible: 64-bit divisions would take longer than moving the
    // bytes.
    if (bytes / static_cast<int64_t>(sizeof(Unit)) < int64_t{1} << 31) {
      launch.template operator()<Unit, uint32_t>();
    } else {
      launch.template operator()<Unit, int64_t>();
    }
  };
  if (head_bytes % 16 == 0 && Aligned(static_cast<char*>(all.data), at(0), at(1), at(2))) {
    move.template operator()<uint4>();
  } else if (graph::ByteSize(all.type.dtype) == 2) {
    move.template operator()<uint16_t>();
  } else {
    move.template operator()<uint32_t>();
  }
}

const CudaKernelRegistration kSplitHeads({"split_heads", &MoveHeads<false, 3>});
const CudaKernelRegistration kSplitHeadsBackward({"split_heads_backward", &MoveHeads<true, 3>});
const CudaKernelRegistration kMergeHeads({"merge_heads", &MoveHeads<true, 1>});
const CudaKernelRegistration kMergeHeadsBackward({"merge_heads_backward", &MoveHeads<false, 1>});

}  // namespace
}  // namespace plimsoll::ops
