// Computes ops/optimizer/model_state.h element by element. Threads share chunks of elements. Bytes:
// every argument once.
#include <algorithm>
#include <bit>

#include "ops/elementwise/cpu_elementwise.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void MovingAverage(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t elements = ctx.in_shape(0).elements();
    const int64_t values = ctx.in_shape(1).elements() / elements;
    const auto momentum = static_cast<T>(ctx.attributes.GetReal("momentum"));
    const S *state = ctx.in<S>(0), *value = ctx.in<S>(1);
    S* next = ctx.out<S>(0);
    ParallelVectors<T>(ctx.pool, elements, [=](int64_t i, auto count) {
      Vec<T> sum = Load<T>(value + i, count);
      for (int64_t v = 1; v < values; ++v) sum += Load<T>(value + v * elements + i, count);
      const Vec<T> now = Load<T>(state + i, count), mean = sum / static_cast<T>(values);
      Store<T>(next + i, now + (mean - now) * momentum, count);
    });
  });
}

void AddToState(const CpuContext& ctx) {
  MapElements<2>(ctx, []<typename T>(Vec<T> state, Vec<T> value) { return state + value; });
}

// The bits of a float without its sign have the order of integers, with NaN above infinity.
int32_t MagnitudeBits(float value) { return std::bit_cast<int32_t>(value) & 0x7fffffff; }

void MaxMagnitude(const CpuContext& ctx) {
  const auto *value = ctx.in<float>(0), *state = ctx.in<float>(1);
  auto* out = ctx.out<float>(0);
  ctx.pool.ParallelFor(
      ctx.in_shape(0).elements(), kElementwiseGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int32_t bits = MagnitudeBits(value[i]);
          out[i] = std::bit_cast<float>(state == nullptr ? bits
                                                         : std::max(bits, MagnitudeBits(state[i])));
        }
      });
}

void CommitState(const CpuContext& ctx) {
  const auto parts = static_cast<float>(ctx.attributes.GetInt("parts"));
  const auto *state = ctx.in<float>(0), *pending = ctx.in<float>(1);
  const bool apply = !ctx.has_input(2) || *ctx.in<int32_t>(2) != 0;
  auto* out = ctx.out<float>(0);
  ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                       [=](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           out[i] = apply ? pending[i] / parts : state[i];
                         }
                       });
}

const CpuKernelRegistration kMovingAverage({"moving_average", &MovingAverage});
const CpuKernelRegistration kAddToState({"add_to_state", &AddToState});
const CpuKernelRegistration kMaxMagnitude({"max_magnitude", &MaxMagnitude});
const CpuKernelRegistration kCommitState({"commit_state", &CommitState});

}  // namespace
}  // namespace plimsoll::ops
