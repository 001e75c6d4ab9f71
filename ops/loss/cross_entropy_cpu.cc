// Formulas in cross_entropy.h. Threads share the rows. A row is read three times, from the cache:
// for its largest logit, its sum of exponentials, and its loss. The rows' losses are added in the
// order of rows, in double. Bytes: forward N·s, backward 2·N·s.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/kernel.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

template <typename T, typename S>
T Logit(const S* row, int64_t c) {
  return Load<T>(row + c, 1)[0];
}

template <typename T, typename S>
T LogSumExp(const S* row, int64_t classes) {
  T largest = Logit<T>(row, 0);
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, Logit<T>(row, c));
  T sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(Logit<T>(row, c) - largest);
  return largest + std::log(sum);
}

void CheckTargets(const CpuContext& ctx, int64_t classes, size_t input = 1) {
  const int32_t* const targets = ctx.in<int32_t>(input);
  if (targets == nullptr) return;
  for (int64_t r = 0; r < ctx.in_shape(1).elements(); ++r) {
    if (targets[r] < classes) continue;
    throw InternalError(ctx.op.name + ": a target of " + std::to_string(targets[r]) + " among " +
                        std::to_string(classes) + " classes");
  }
}

// The labels of the rows: one, or two with weights that add up to 1.
template <typename T>
struct Labels {
  // `second`: the index of the input targets_b.
  Labels(const CpuContext& ctx, size_t second)
      : first(ctx.in<int32_t>(1)),
        second(ctx.in<int32_t>(second)),
        weight(ctx.in<float>(second + 1)) {}

  // The mean of of(c) over the row's labels c, by their weights.
  template <typename Function>
  T Mean(int64_t r, const Function& of) const {
    if (second == nullptr || second[r] < 0) return of(first[r]);
    const T w = static_cast<T>(weight[r]);
    return w * of(first[r]) + (1 - w) * of(second[r]);
  }

  const int32_t *first, *second;
  const float* weight;
};

void Loss(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows(), classes = ctx.in_shape(0).dim(-1);
    CheckTargets(ctx, classes);
    CheckTargets(ctx, classes, 3);
    const T smoothing = static_cast<T>(ctx.attributes.GetReal("label_smoothing"));
    const S* const logits = ctx.in<S>(0);
    const Labels<T> labels(ctx, 3);
    T *const losses = static_cast<T*>(ctx.workspace), *const lse = ctx.out<T>(1);
    ctx.pool.ParallelFor(rows, RowGrain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const S* const row = logits + r * classes;
        const T of_row = LogSumExp<T>(row, classes);
        if (lse != nullptr) lse[r] = of_row;
        losses[r] = 0;
        if (labels.first[r] < 0) continue;
        losses[r] =
            (1 - smoothing) * labels.Mean(r, [&](int64_t c) { return of_row - Logit<T>(row, c); });
        if (smoothing == 0) continue;
        T sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += of_row - Logit<T>(row, c);
        losses[r] += smoothing / static_cast<T>(classes) * sum;
      }
    });
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += losses[r];
    *ctx.out<T>(0) = static_cast<T>(sum * *ctx.in<float>(2));
  });
}

int64_t LossWorkspace(const graph::OpCall& call, int /*threads*/) {
  const graph::TensorType& logits = call.input(0);
  return logits.shape.rows() * graph::ByteSize(graph::ComputeType(logits.dtype));
}

void LossBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows(), classes = ctx.in_shape(0).dim(-1);
    CheckTargets(ctx, classes);
    CheckTargets(ctx, classes, 5);
    const T smoothing = static_cast<T>(ctx.attributes.GetReal("label_smoothing"));
    const S* const logits = ctx.in<S>(0);
    const Labels<T> labels(ctx, 5);
    const T* const lse = ctx.in<T>(3);
    const T factor = *ctx.in<T>(4) * static_cast<T>(*ctx.in<float>(2));
    S* const dlogits = ctx.out<S>(0);
    ctx.pool.ParallelFor(rows, RowGrain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const S* const row = logits + r * classes;
        S* const to = dlogits + r * classes;
        for (int64_t c = 0; c < classes; ++c) {
          T gradient = 0;
          if (labels.first[r] >= 0) {
            const T wanted = labels.Mean(r, [&](int64_t label) {
              return c == label ? 1 - smoothing : T(0);
            }) + smoothing / static_cast<T>(classes);
            gradient = factor * (std::exp(Logit<T>(row, c) - lse[r]) - wanted);
          }
          Store<T>(to + c, Vec<T>{gradient}, 1);
        }
      }
    });
  });
}

void CountTopK(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows(), classes = ctx.in_shape(0).dim(-1);
    CheckTargets(ctx, classes);
    const int64_t k = ctx.attributes.GetInt("k");
    int32_t right = 0, counted = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t target = ctx.in<int32_t>(1)[r];
      if (target < 0) continue;
      const S* const row = ctx.in<S>(0) + r * classes;
      const T own = Logit<T>(row, target);
      int64_t larger = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const T other = Logit<T>(row, c);
        larger += other > own || (other == own && c < target);
      }
      right += larger < k && own == own;
      ++counted;
    }
    *ctx.out<int32_t>(0) = right;
    *ctx.out<int32_t>(1) = counted;
  });
}

const CpuKernelRegistration kLoss({"cross_entropy", &Loss, &LossWorkspace});
const CpuKernelRegistration kLossBackward({"cross_entropy_backward", &LossBackward});
const CpuKernelRegistration kTopK({"count_top_k", &CountTopK});

}  // namespace
}  // namespace plimsoll::ops
