// Formulas in binary_cross_entropy.h. The gradient is computed as (1 − t)·σ(x) − t·σ(−x), because a
// difference would lose small tails. Threads share chunks of elements; partial sums are added in
// the chunks' order, in double. Bytes: forward n·s, backward 2·n·s, and targets.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kChunk = 4096;

int64_t Chunks(int64_t elements) { return (elements + kChunk - 1) / kChunk; }

// The targets of the logits: one probability for each logit, or one for all; NaN in rows without a
// label.
template <typename T>
struct Targets {
  // `input`: the index of the targets. Labels are the next input.
  Targets(const CpuContext& ctx, size_t input)
      : each(ctx.in<float>(input)),
        of_all(each != nullptr ? T(0) : static_cast<T>(ctx.attributes.GetReal("target"))),
        labels(ctx.in<int32_t>(input + 1)),
        row(labels == nullptr ? 1 : ctx.in_shape(0).elements() / ctx.in_shape(0).dim(0)) {}

  T at(int64_t i) const {
    if (labels != nullptr && labels[i / row] < 0) return std::numeric_limits<T>::quiet_NaN();
    return each != nullptr ? static_cast<T>(each[i]) : of_all;
  }

  const float* each;
  T of_all;
  const int32_t* labels;
  int64_t row;  // number of logits in a row
};

struct Partial {
  double loss;
  int64_t right, counted;
};

void Loss(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* const logits = ctx.in<S>(0);
    const Targets<T> targets(ctx, 2);
    const int64_t elements = ctx.in_shape(0).elements(), chunks = Chunks(elements);
    Partial* const partials = static_cast<Partial*>(ctx.workspace);
    ctx.pool.ParallelFor(chunks, 1, [&](int64_t chunk, int64_t) {
      Partial partial = {};
      const int64_t end = std::min((chunk + 1) * kChunk, elements);
      for (int64_t i = chunk * kChunk; i < end; ++i) {
        const T x = Load<T>(logits + i, 1)[0], t = targets.at(i);
        if (std::isnan(t)) continue;
        partial.loss += std::max(x, T(0)) - x * t + std::log1p(std::exp(-std::abs(x)));
        partial.right += (x > 0) == (2 * t > 1);
        ++partial.counted;
      }
      partials[chunk] = partial;
    });
    Partial all = {};
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      all.loss += partials[chunk].loss;
      all.right += partials[chunk].right;
      all.counted += partials[chunk].counted;
    }
    *ctx.out<T>(0) = static_cast<T>(all.loss * *ctx.in<float>(1));
    if (int32_t* const right = ctx.out<int32_t>(1)) *right = static_cast<int32_t>(all.right);
    if (int32_t* const count = ctx.out<int32_t>(2)) *count = static_cast<int32_t>(all.counted);
  });
}

int64_t LossWorkspace(const graph::OpCall& call, int /*threads*/) {
  return Chunks(call.input(0).shape.elements()) * static_cast<int64_t>(sizeof(Partial));
}

void LossBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* const logits = ctx.in<S>(0);
    const Targets<T> targets(ctx, 3);
    const T factor = *ctx.in<float>(1) * *ctx.in<T>(2);
    S* const dlogits = ctx.out<S>(0);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> x = Load<T>(logits + i, count);
      Vec<T> t = {};
      for (int j = 0; j < count; ++j) t[j] = targets.at(i + j);
      const Vec<T> tail = Exp<T>(x < 0 ? x : -x), body = 1 / (1 + tail);
      const Vec<T> real = x < 0 ? tail * body : body, fake = x < 0 ? body : tail * body;
      Store<T>(dlogits + i, t == t ? factor * ((1 - t) * real - t * fake) : Vec<T>{}, count);
    });
  });
}

const CpuKernelRegistration kLoss({"binary_cross_entropy_with_logits", &Loss, &LossWorkspace});
const CpuKernelRegistration kLossBackward({"binary_cross_entropy_with_logits_backward",
                                           &LossBackward});

}  // namespace
}  // namespace plimsoll::ops
