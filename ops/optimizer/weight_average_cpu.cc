// Computes ops/optimizer/weight_average.h in one pass over memory; threads share blocks of
// elements. Bytes: each argument once in its stored form; with float32 weights weight_average 3·n·s
// (reads average and p; writes average), exchange_average 4·n·s.
#include <algorithm>
#include <cstring>

#include "ops/kernel.h"
#include "ops/optimizer/blocks.h"
#include "ops/optimizer/optimizer_state.h"

namespace plimsoll::ops {
namespace {

// Returns 1 − decay.
double ShareOf(const CpuContext& ctx, double count) {
  const double decay = ctx.attributes.GetReal("decay");
  if (!ctx.attributes.GetBool("warmup")) return 1 - decay;
  return 1 - std::min(decay, (1 + count) / (10 + count));
}

template <typename T>
void WeightAverageAs(const CpuContext& ctx) {
  const int32_t count = *ctx.in<int32_t>(2);
  const T share = static_cast<T>(ShareOf(ctx, count));
  // The weight is not written, so the indices of its outputs are not used.
  const Weight<T> weight(ctx, 1, 3, 0, 0);
  const T* const average = ctx.in<T>(0);
  T* const out = ctx.out<T>(0);
  ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [&](Block block) {
    alignas(64) T scratch[kStateBlock];
    const Block of{0, block.count};
    const T* const value = weight.Read(block, scratch);
    if (count == 1) {
      block(out) = of(value);
    } else {
      block(out) = block(average) + (of(value) - block(average)) * share;
    }
  });
}

void WeightAverage(const CpuContext& ctx) {
  const TensorRef &in = ctx.inputs[0], &out = ctx.outputs[0];
  if (ctx.has_input(4) && *ctx.in<int32_t>(4) == 0) {
    if (in.data != out.data) std::memcpy(out.data, in.data, in.type.bytes());
    return;
  }
  if (in.type.dtype == graph::DType::kFloat64) return WeightAverageAs<double>(ctx);
  WeightAverageAs<float>(ctx);
}

template <typename T>
void ExchangeAverageAs(const CpuContext& ctx) {
  const Weight<T> weight(ctx, 0, 2, 0, 2);
  const T* const average = ctx.in<T>(1);
  T* const average_out = ctx.out<T>(1);
  ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [&](Block block) {
    alignas(64) T scratch[kStateBlock], old[kStateBlock];
    const Block of{0, block.count};
    of(old) = of(weight.Read(block, scratch));
    T* const taken = weight.Target(block, scratch);
    of(taken) = block(average);
    weight.Write(block, taken, {});
    block(average_out) = of(old);
  });
}

// If a bf16 weight has neither remainder nor master, exchanges it with the upper half of its
// average.
void ExchangeUpperHalves(const CpuContext& ctx) {
  const BFloat16* const p = ctx.in<BFloat16>(0);
  const float* const average = ctx.in<float>(1);
  BFloat16* const p_out = ctx.out<BFloat16>(0);
  float* const average_out = ctx.out<float>(1);
  ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                       [=](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           const SplitFloat split = Split(average[i]);
                           average_out[i] = Join(p[i], split.low);
                           p_out[i] = split.high;
                         }
                       });
}

void ExchangeAverage(const CpuContext& ctx) {
  const graph::DType dtype = ctx.inputs[0].type.dtype;
  if (dtype == graph::DType::kFloat64) return ExchangeAverageAs<double>(ctx);
  if (dtype == graph::DType::kBFloat16 && !ctx.has_input(2)) return ExchangeUpperHalves(ctx);
  ExchangeAverageAs<float>(ctx);
}

const CpuKernelRegistration kWeightAverage({"weight_average", &WeightAverage});
const CpuKernelRegistration kExchangeAverage({"exchange_average", &ExchangeAverage});

}  // namespace
}  // namespace plimsoll::ops
