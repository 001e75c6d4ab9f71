// y = acc + x, rounded stochastically (ops/add_rounded.h). Threads share blocks of elements, whose
// random words are drawn into the first-level cache. Bytes: every argument once.
#include "base/philox.h"
#include "ops/kernel.h"
#include "ops/optimizer/blocks.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

template <typename X>
void AddRoundedAs(const CpuContext& ctx) {
  const PhiloxStream stream(ctx.in<int32_t>(2), ctx.attributes.GetInt("key"));
  const BFloat16* const acc = ctx.in<BFloat16>(0);
  const X* const x = ctx.in<X>(1);
  BFloat16* const y = ctx.out<BFloat16>(0);
  static_assert(kBlockElements % 2 == 0 && kElementwiseGrain % kBlockElements == 0);
  ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [&](Block block) {
    alignas(64) float sums[kBlockElements];
    alignas(64) uint32_t words[kBlockElements / 2];
    stream.Words(static_cast<uint64_t>(block.begin / 2), (block.count + 1) / 2, words);
    ForVectors<float>(0, block.count, [&](int64_t i, auto count) {
      Store<float>(
          sums + i,
          Load<float>(acc + block.begin + i, count) + Load<float>(x + block.begin + i, count),
          count);
    });
    for (int64_t i = 0; i < block.count; ++i) {
      y[block.begin + i].bits = ToBf16Stochastic(sums[i], words[i / 2] >> (i % 2 * 16));
    }
  });
}

void AddRounded(const CpuContext& ctx) {
  if (ctx.inputs[1].type.dtype == graph::DType::kFloat32) return AddRoundedAs<float>(ctx);
  AddRoundedAs<BFloat16>(ctx);
}

const CpuKernelRegistration kAddRounded({"add_rounded", &AddRounded});

}  // namespace
}  // namespace plimsoll::ops
