// y[r,:Ca] = a[r],  y[r,Ca:] = b[r];   da[r] = dy[r,:Ca] + acc_a[r],  db[r] = dy[r,Ca:] + acc_b[r].
// Threads share rows. Bytes: every argument once; of dy only the requested parts.
#include <algorithm>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// Calls visit(row) for all rows of y or dy, on all threads.
template <typename Visit>
void ForRows(ThreadPool& pool, const graph::Shape& shape, const Visit& visit) {
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / shape.dim(-1));
  pool.ParallelFor(shape.rows(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) visit(row);
  });
}

void ConcatChannels(const CpuContext& ctx) {
  const int64_t of_a = ctx.in_shape(0).dim(-1), of_b = ctx.in_shape(1).dim(-1);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S *const a = ctx.in<S>(0), *const b = ctx.in<S>(1);
    S* const y = ctx.out<S>(0);
    ForRows(ctx.pool, ctx.out_shape(0), [&](int64_t row) {
      S* const behind_a = std::copy_n(a + row * of_a, of_a, y + row * (of_a + of_b));
      std::copy_n(b + row * of_b, of_b, behind_a);
    });
  });
}

// out = dy + acc, or out = dy if acc is nullptr. acc may be out.
template <typename S>
void MoveOrAdd(const S* dy, const S* acc, int64_t channels, S* out) {
  using T = Compute<S>;
  if (acc == nullptr) {
    std::copy_n(dy, channels, out);
    return;
  }
  ForVectors<T>(0, channels, [&](int64_t i, auto count) {
    Store<T>(out + i, Load<T>(dy + i, count) + Load<T>(acc + i, count), count);
  });
}

void ConcatChannelsBackward(const CpuContext& ctx) {
  const int64_t channels = ctx.in_shape(0).dim(-1);
  const int64_t of_a = ctx.attributes.GetInt("first_channels"), of_b = channels - of_a;
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S *const acc_a = ctx.in<S>(1), *const acc_b = ctx.in<S>(2);
    S *const da = ctx.out<S>(0), *const db = ctx.out<S>(1);
    const auto at = [](const S* acc, int64_t i) { return acc == nullptr ? nullptr : acc + i; };
    ForRows(ctx.pool, ctx.in_shape(0), [&](int64_t row) {
      const S* const dy = ctx.in<S>(0) + row * channels;
      if (da) MoveOrAdd(dy, at(acc_a, row * of_a), of_a, da + row * of_a);
      if (db) MoveOrAdd(dy + of_a, at(acc_b, row * of_b), of_b, db + row * of_b);
    });
  });
}

const CpuKernelRegistration kConcatChannels({"concat_channels", &ConcatChannels});
const CpuKernelRegistration kConcatChannelsBackward({"concat_channels_backward",
                                                     &ConcatChannelsBackward});

}  // namespace
}  // namespace plimsoll::ops
