// heads.cc has the shapes. A task is a few tokens with all their heads; the hd values of a head are
// copied at once. Bytes: 2·n·s.
#include <cstring>

#include "ops/kernel.h"
#include "ops/reductions/row_partials.h"

namespace plimsoll::ops {
namespace {

// Copies to (kPack) or from the packed tensor [B,T,blocks·hd]. It consists of queries or, with
// kParts = 3, of queries, keys and values, each [B,G,group·T,hd].
template <bool kPack, size_t kParts>
void MoveHeads(const CpuContext& ctx) {
  const int64_t heads = ctx.attributes.GetInt("heads"),
                kv_heads = ctx.attributes.GetInt("kv_heads");
  const int64_t blocks = kParts == 1 ? heads : heads + 2 * kv_heads;
  int64_t first = 0;  // the first head of the part in the packed tensor
  for (size_t i = 0; i < kParts; ++i) {
    const TensorRef& part = (kPack ? ctx.inputs : ctx.outputs)[i];
    const graph::Shape& shape = part.type.shape;
    const int64_t own = i == 0 ? heads : kv_heads;
    const int64_t sequence = shape.dim(1) * shape.dim(2) / own;
    const auto bytes = static_cast<size_t>(shape.dim(3) * graph::ByteSize(part.type.dtype));
    char* const packed = static_cast<char*>((kPack ? ctx.outputs : ctx.inputs)[0].data);
    char* const separate = static_cast<char*>(part.data);
    ctx.pool.ParallelFor(shape.dim(0) * sequence, RowGrain(own * shape.dim(3)),
                         [&](int64_t begin, int64_t end) {
                           for (int64_t token = begin; token < end; ++token) {
                             const int64_t b = token / sequence, t = token % sequence;
                             for (int64_t h = 0; h < own; ++h) {
                               char* const x = packed + (token * blocks + first + h) * bytes;
                               char* const y = separate + ((b * own + h) * sequence + t) * bytes;
                               std::memcpy(kPack ? x : y, kPack ? y : x, bytes);
                             }
                           }
                         });
    first += own;
  }
}

const CpuKernelRegistration kSplitHeads({"split_heads", &MoveHeads<false, 3>});
const CpuKernelRegistration kSplitHeadsBackward({"split_heads_backward", &MoveHeads<true, 3>});
const CpuKernelRegistration kMergeHeads({"merge_heads", &MoveHeads<true, 1>});
const CpuKernelRegistration kMergeHeadsBackward({"merge_heads_backward", &MoveHeads<false, 1>});

}  // namespace
}  // namespace plimsoll::ops
