// Formulas in masked_softmax.cc. Threads share the rows. A row is read three times, from the cache:
// for its largest score, its sum of exponentials, and its probabilities. Masked keys are not read.
// Backward reads a row twice. Bytes: forward 2·n·s, backward 3·n·s.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/kernel.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void CheckSoftmaxLengths(const CpuContext& ctx) {
  const int32_t* const lengths = ctx.in<int32_t>(1);
  if (lengths == nullptr) return;
  const int64_t sequence = ctx.in_shape(0).dim(3);
  for (int64_t b = 0; b < ctx.in_shape(0).dim(0); ++b) {
    if (lengths[b] >= 0 && lengths[b] <= sequence) continue;
    throw InternalError(ctx.op.name + ": length " + std::to_string(lengths[b]) + " of row " +
                        std::to_string(b) + " is outside its " + std::to_string(sequence) +
                        " tokens");
  }
}

template <typename T, typename S>
void ZeroFrom(S* row, int64_t begin, int64_t end) {
  ForVectors<T>(begin, end, [&](int64_t j, auto count) { Store<T>(row + j, Vec<T>{}, count); });
}

// The largest of n ≥ 1 values. It ignores NaN, which the sum of exponentials keeps.
template <typename T, typename S>
T LargestScore(const S* row, int64_t n) {
  Vec<T> largest = Splat<T>(Load<T>(row, 1)[0]);
  ForVectors<T>(0, n, [&](int64_t j, auto count) {
    Vec<T> x = Load<T>(row + j, count);
    for (int lane = count; lane < kLanes<T>; ++lane) x[lane] = largest[lane];
    largest = x > largest ? x : largest;
  });
  T result = largest[0];
  for (int lane = 1; lane < kLanes<T>; ++lane) result = std::max(result, largest[lane]);
  return result;
}

// Calls body(first element, seen) for each row; the row's query sees the first `seen` keys.
template <typename Body>
void ForSoftmaxRows(const CpuContext& ctx, const int32_t* lengths, const Body& body) {
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t sequence = shape.dim(3), rows_of_batch = shape.dim(1) * shape.dim(2);
  const bool causal = ctx.attributes.GetBool("causal");
  ctx.pool.ParallelFor(shape.rows(), RowGrain(sequence), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t i = r % sequence;
      const int64_t length = lengths == nullptr ? sequence : lengths[r / rows_of_batch];
      body(r * sequence, i >= length ? 0 : causal ? i + 1 : length);
    }
  });
}

void Softmax(const CpuContext& ctx) {
  CheckSoftmaxLengths(ctx);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t sequence = ctx.in_shape(0).dim(3);
    const T scale = static_cast<T>(ctx.attributes.GetReal("scale"));
    ForSoftmaxRows(ctx, ctx.in<int32_t>(1), [&](int64_t first, int64_t seen) {
      const S* const s = ctx.in<S>(0) + first;
      S* const p = ctx.out<S>(0) + first;
      if (seen > 0) {
        const T largest = LargestScore<T>(s, seen);
        const auto exponential = [&](int64_t j, auto count) {
          return Exp<T>((Load<T>(s + j, count) - largest) * scale);
        };
        const T inverse = 1 / SumVectors<T>(seen, exponential);
        ForVectors<T>(0, seen, [&](int64_t j, auto count) {
          Store<T>(p + j, exponential(j, count) * inverse, count);
        });
      }
      ZeroFrom<T>(p, seen, sequence);
    });
  });
}

void SoftmaxBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t sequence = ctx.in_shape(0).dim(3);
    const T scale = static_cast<T>(ctx.attributes.GetReal("scale"));
    ForSoftmaxRows(ctx, nullptr, [&](int64_t first, int64_t seen) {
      const S* const p = ctx.in<S>(0) + first;
      const S* const dp = ctx.in<S>(1) + first;
      S* const ds = ctx.out<S>(0) + first;
      const T mean = SumVectors<T>(seen, [&](int64_t j, auto count) {
        return Load<T>(p + j, count) * Load<T>(dp + j, count);
      });
      ForVectors<T>(0, seen, [&](int64_t j, auto count) {
        const Vec<T> d = Load<T>(dp + j, count) - mean;
        Store<T>(ds + j, Load<T>(p + j, count) * d * scale, count);
      });
      ZeroFrom<T>(ds, seen, sequence);
    });
  });
}

const CpuKernelRegistration kSoftmax({"masked_softmax", &Softmax});
const CpuKernelRegistration kSoftmaxBackward({"masked_softmax_backward", &SoftmaxBackward});

}  // namespace
}  // namespace plimsoll::ops
