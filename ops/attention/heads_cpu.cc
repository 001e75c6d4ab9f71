// The shapes are in ops/attention/heads.h. A task is a few tokens with all their heads; the hd
// values of a head are copied at once. Bytes: 2·n·s.
#include <cstring>

#include "ops/kernel.h"
#include "ops/reductions/row_partials.h"

namespace plimsoll::ops {
namespace {

// Calls move(packed, separate, bytes) for each head of each token: the byte positions of its values
// in the packed tensor [B,T,blocks·hd], from block `first` on, and in [B,G,group·T,hd].
template <typename Move>
void ForHeads(const CpuContext& ctx, const graph::TensorType& separate, int64_t blocks,
              int64_t first, int64_t group, const Move& move) {
  const graph::Shape& shape = separate.shape;
  const int64_t batch = shape.dim(0), kv_heads = shape.dim(1), sequence = shape.dim(2) / group;
  const int64_t bytes = shape.dim(3) * graph::ByteSize(separate.dtype);
  const int64_t heads = group * kv_heads;
  ctx.pool.ParallelFor(
      batch * sequence, RowGrain(heads * shape.dim(3)), [&](int64_t begin, int64_t end) {
        for (int64_t token = begin; token < end; ++token) {
          const int64_t b = token / sequence, t = token % sequence;
          for (int64_t h = 0; h < heads; ++h) {
            move((token * blocks + first + h) * bytes, ((b * heads + h) * sequence + t) * bytes,
                 static_cast<size_t>(bytes));
          }
        }
      });
}

int64_t Group(const CpuContext& ctx) {
  return ctx.attributes.GetInt("heads") / ctx.attributes.GetInt("kv_heads");
}

// Where q, k and v are within a token, in heads, and how many query heads share one of k or v.
struct PackedPart {
  int64_t first, group;
};

PackedPart PartOf(const CpuContext& ctx, size_t part) {
  const int64_t heads = ctx.attributes.GetInt("heads"),
                kv_heads = ctx.attributes.GetInt("kv_heads");
  if (part == 0) return {0, heads / kv_heads};
  return {part == 1 ? heads : heads + kv_heads, 1};
}

int64_t PackedBlocks(const CpuContext& ctx) {
  return ctx.attributes.GetInt("heads") + 2 * ctx.attributes.GetInt("kv_heads");
}

void SplitHeadsKernel(const CpuContext& ctx) {
  const char* const qkv = ctx.in<char>(0);
  for (size_t i = 0; i < 3; ++i) {
    const PackedPart part = PartOf(ctx, i);
    char* const to = ctx.out<char>(i);
    ForHeads(ctx, ctx.outputs[i].type, PackedBlocks(ctx), part.first, part.group,
             [=](int64_t packed, int64_t separate, size_t bytes) {
               std::memcpy(to + separate, qkv + packed, bytes);
             });
  }
}

void SplitHeadsBackwardKernel(const CpuContext& ctx) {
  char* const dqkv = ctx.out<char>(0);
  for (size_t i = 0; i < 3; ++i) {
    const PackedPart part = PartOf(ctx, i);
    const char* const from = ctx.in<char>(i);
    ForHeads(ctx, ctx.inputs[i].type, PackedBlocks(ctx), part.first, part.group,
             [=](int64_t packed, int64_t separate, size_t bytes) {
               std::memcpy(dqkv + packed, from + separate, bytes);
             });
  }
}

void MergeHeadsKernel(const CpuContext& ctx) {
  const char* const x = ctx.in<char>(0);
  char* const y = ctx.out<char>(0);
  ForHeads(ctx, ctx.inputs[0].type, ctx.attributes.GetInt("heads"), 0, Group(ctx),
           [=](int64_t packed, int64_t separate, size_t bytes) {
             std::memcpy(y + packed, x + separate, bytes);
           });
}

void MergeHeadsBackwardKernel(const CpuContext& ctx) {
  const char* const dy = ctx.in<char>(0);
  char* const dx = ctx.out<char>(0);
  ForHeads(ctx, ctx.outputs[0].type, ctx.attributes.GetInt("heads"), 0, Group(ctx),
           [=](int64_t packed, int64_t separate, size_t bytes) {
             std::memcpy(dx + separate, dy + packed, bytes);
           });
}

const CpuKernelRegistration kSplitHeads({"split_heads", &SplitHeadsKernel});
const CpuKernelRegistration kSplitHeadsBackward({"split_heads_backward",
                                                 &SplitHeadsBackwardKernel});
const CpuKernelRegistration kMergeHeads({"merge_heads", &MergeHeadsKernel});
const CpuKernelRegistration kMergeHeadsBackward({"merge_heads_backward",
                                                 &MergeHeadsBackwardKernel});

}  // namespace
}  // namespace plimsoll::ops
