// The shapes are in ops/attention/heads.h. A thread moves 16 bytes, or one element where the
// values of a head don't fill packs of 16 bytes. Neighbouring threads have neighbouring bytes of
// the packed tensor, and of the other one as long as they are of one head. Bytes: 2·n·s.
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kMoveThreads = 256;

// The packed tensor [B,T,(heads + 2·kv_heads)·hd] and its parts, in units of what a thread moves.
// kv_heads is 0 for queries alone.
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

template <bool kPack, typename Unit, typename Index>
void LaunchMove(const CudaContext& ctx, const graph::TensorType& packed, const void* const (&at)[4],
                int64_t kv_heads) {
  const auto unit = [&](size_t i) { return static_cast<Unit*>(const_cast<void*>(at[i])); };
  const int64_t heads = ctx.attributes.GetInt("heads");
  const int64_t units = packed.bytes() / static_cast<int64_t>(sizeof(Unit));
  const int64_t tokens = packed.shape.dim(0) * packed.shape.dim(1);
  const HeadsMove<Unit, Index> m = {
      .packed = unit(0),
      .q = unit(1),
      .k = unit(2),
      .v = unit(3),
      .units = static_cast<Index>(units),
      .sequence = static_cast<Index>(packed.shape.dim(1)),
      .heads = static_cast<Index>(heads),
      .kv_heads = static_cast<Index>(kv_heads),
      .head = static_cast<Index>(units / tokens / (heads + 2 * kv_heads))};
  const auto blocks = static_cast<unsigned>((units + kMoveThreads - 1) / kMoveThreads);
  MoveHeadsKernel<kPack><<<blocks, kMoveThreads, 0, ctx.stream>>>(m);
  gpu::CheckLaunch("moving heads");
}

// `at`: the packed tensor, q, and k and v unless kv_heads is 0.
template <bool kPack>
void MoveHeads(const CudaContext& ctx, const graph::TensorType& packed, const void* const (&at)[4],
               int64_t kv_heads) {
  if (packed.shape.elements() == 0) return;
  const int64_t heads = ctx.attributes.GetInt("heads") + 2 * kv_heads;
  const int64_t head_bytes =
      packed.shape.dim(2) / heads * static_cast<int64_t>(graph::ByteSize(packed.dtype));
  const auto move = [&]<typename Unit>() {
    // Divisions of 64 bits would take longer than the bytes.
    if (packed.bytes() / static_cast<int64_t>(sizeof(Unit)) < int64_t{1} << 31) {
      LaunchMove<kPack, Unit, uint32_t>(ctx, packed, at, kv_heads);
    } else {
      LaunchMove<kPack, Unit, int64_t>(ctx, packed, at, kv_heads);
    }
  };
  if (head_bytes % 16 == 0 &&
      Aligned(static_cast<const char*>(at[0]), static_cast<const char*>(at[1]),
              static_cast<const char*>(at[2]), static_cast<const char*>(at[3]))) {
    move.template operator()<uint4>();
  } else if (graph::ByteSize(packed.dtype) == 2) {
    move.template operator()<uint16_t>();
  } else {
    move.template operator()<uint32_t>();
  }
}

void SplitHeads(const CudaContext& ctx) {
  MoveHeads<false>(ctx, ctx.inputs[0].type,
                   {ctx.in<void>(0), ctx.out<void>(0), ctx.out<void>(1), ctx.out<void>(2)},
                   ctx.attributes.GetInt("kv_heads"));
}

void SplitHeadsBackward(const CudaContext& ctx) {
  MoveHeads<true>(ctx, ctx.outputs[0].type,
                  {ctx.out<void>(0), ctx.in<void>(0), ctx.in<void>(1), ctx.in<void>(2)},
                  ctx.attributes.GetInt("kv_heads"));
}

void MergeHeads(const CudaContext& ctx) {
  MoveHeads<true>(ctx, ctx.outputs[0].type, {ctx.out<void>(0), ctx.in<void>(0), nullptr, nullptr},
                  0);
}

void MergeHeadsBackward(const CudaContext& ctx) {
  MoveHeads<false>(ctx, ctx.inputs[0].type, {ctx.in<void>(0), ctx.out<void>(0), nullptr, nullptr},
                   0);
}

const CudaKernelRegistration kSplitHeads({"split_heads", &SplitHeads});
const CudaKernelRegistration kSplitHeadsBackward({"split_heads_backward", &SplitHeadsBackward});
const CudaKernelRegistration kMergeHeads({"merge_heads", &MergeHeads});
const CudaKernelRegistration kMergeHeadsBackward({"merge_heads_backward", &MergeHeadsBackward});

}  // namespace
}  // namespace plimsoll::ops
