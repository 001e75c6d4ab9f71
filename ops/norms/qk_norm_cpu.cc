// Forward, for each query and key head: y = x · rstd · weight (definition in qk_norm.h). With a
// unit offset, read 1 + weight for weight, here and below. A head stays in the first-level cache
// while it is read twice. Threads share the tokens. Bytes: 2·N·(H+2G)·hd·s for N tokens; in place,
// the value heads are not accessed.
//
// Backward, with x̂ = x · rstd and ĝ = dy · weight:
//   dx = rstd · (ĝ − x̂ · Σ(ĝ·x̂) / hd),   dweight = Σ_tokens Σ_heads dy · x̂,
// in one pass over chunks of tokens. Each chunk has its own partial sums, which are added in the
// order of the chunks (ops/reductions/row_partials.h). Bytes: 3·N·(H+2G)·hd·s.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/norms/norm_rows.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::TensorType;

struct Heads {
  int64_t queries, keys;
  int64_t width;  // hd

  int64_t normed() const { return queries + keys; }
  int64_t token() const { return (queries + 2 * keys) * width; }
};

Heads HeadsOf(const TensorType& qkv, const graph::Attributes& attributes) {
  const int64_t heads = attributes.GetInt("heads"), kv_heads = attributes.GetInt("kv_heads");
  return {heads, kv_heads, qkv.shape.dim(2) / (heads + 2 * kv_heads)};
}

template <typename S>
void CopyValues(const Heads& heads, const S* from, S* to) {
  const int64_t values = heads.normed() * heads.width;
  if (from != to) std::copy(from + values, from + heads.token(), to + values);
}

void QkNorm(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Heads heads = HeadsOf(ctx.inputs[0].type, ctx.attributes);
    const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
    const S *in = ctx.in<S>(0), *q_weight = ctx.in<S>(1), *k_weight = ctx.in<S>(2);
    S* out = ctx.out<S>(0);
    T* rstd_out = ctx.out<T>(1);
    const int64_t width = heads.width;
    const auto normalize = [&]<bool kUnitOffset>(int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        const S* const all_x = in + token * heads.token();
        S* const all_y = out + token * heads.token();
        for (int64_t h = 0; h < heads.normed(); ++h) {
          const S* const x = all_x + h * width;
          const T mean_square = SumVectors<T>(width,
                                              [&](int64_t i, auto count) {
                                                const Vec<T> v = Load<T>(x + i, count);
                                                return v * v;
                                              }) /
                                static_cast<T>(width);
          const T rstd = 1 / std::sqrt(mean_square + eps);
          RmsNormRow<kUnitOffset>(x, rstd, h < heads.queries ? q_weight : k_weight, width,
                                  all_y + h * width);
          if (rstd_out != nullptr) rstd_out[token * heads.normed() + h] = rstd;
        }
        CopyValues(heads, all_x, all_y);
      }
    };
    DispatchUnitOffset(ctx.attributes, [&]<bool kUnitOffset>() {
      ctx.pool.ParallelFor(ctx.in_shape(0).rows(), RowGrain(heads.token()),
                           [&](int64_t begin, int64_t end) {
                             normalize.template operator()<kUnitOffset>(begin, end);
                           });
    });
  });
}

// Adds the head's part of dweight, unless that is nullptr; writes dx, unless that is nullptr. dx
// may share memory with dy.
template <bool kUnitOffset, typename S, typename T>
void HeadGradient(const S* x, const S* weight, const S* dy, T rstd, int64_t width, T* dweight,
                  S* dx) {
  Vec<T> lanes = {};
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    const Vec<T> product = Load<T>(dy + i, count) * (Load<T>(x + i, count) * rstd);
    lanes += product * LoadWeight<kUnitOffset, T>(weight + i, count);
    if (dweight != nullptr) {
      Store<T>(dweight + i, Load<T>(dweight + i, count) + product, count);
    }
  });
  if (dx == nullptr) return;
  const T mean = SumLanes<T>(lanes) / static_cast<T>(width);
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    const Vec<T> g = Load<T>(dy + i, count) * LoadWeight<kUnitOffset, T>(weight + i, count);
    Store<T>(dx + i, (g - Load<T>(x + i, count) * rstd * mean) * rstd, count);
  });
}

void QkNormBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Heads heads = HeadsOf(ctx.inputs[0].type, ctx.attributes);
    const S *in = ctx.in<S>(0), *q_weight = ctx.in<S>(1), *k_weight = ctx.in<S>(2);
    const T* rstd = ctx.in<T>(3);
    const S* dout = ctx.in<S>(4);
    S* din = ctx.out<S>(0);
    T *dq_weight = ctx.out<T>(1), *dk_weight = ctx.out<T>(2);
    const int q_sums = dq_weight != nullptr, k_sums = dk_weight != nullptr;
    const int64_t width = heads.width;
    const RowPartials<T> partials(ctx, ctx.in_shape(0).rows(), width, q_sums + k_sums);
    const auto gradients = [&]<bool kUnitOffset>(int64_t begin, int64_t end, T* partial) {
      T* const q_partial = q_sums != 0 ? partial : nullptr;
      T* const k_partial = k_sums != 0 ? partial + q_sums * width : nullptr;
      for (int64_t token = begin; token < end; ++token) {
        const int64_t first = token * heads.token();
        for (int64_t h = 0; h < heads.normed(); ++h) {
          const bool query = h < heads.queries;
          const int64_t at = first + h * width;
          HeadGradient<kUnitOffset>(
              in + at, query ? q_weight : k_weight, dout + at, rstd[token * heads.normed() + h],
              width, query ? q_partial : k_partial, din != nullptr ? din + at : nullptr);
        }
        if (din != nullptr) CopyValues(heads, dout + first, din + first);
      }
    };
    DispatchUnitOffset(ctx.attributes, [&]<bool kUnitOffset>() {
      partials.ForChunks(ctx.pool, [&](int64_t begin, int64_t end, T* partial) {
        gradients.template operator()<kUnitOffset>(begin, end, partial);
      });
    });
    if (dq_weight != nullptr) partials.Combine(ctx.pool, 0, ctx.in<T>(5), dq_weight);
    if (dk_weight != nullptr) partials.Combine(ctx.pool, q_sums, ctx.in<T>(6), dk_weight);
  });
}

int64_t BackwardWorkspace(const OpCall& call, int) {
  const TensorType& qkv = call.input(0);
  const TensorType rows{qkv.dtype, qkv.shape.WithLast(HeadsOf(qkv, call.attributes).width)};
  return RowPartialsBytes(rows, int{call.has_output(1)} + int{call.has_output(2)});
}

const CpuKernelRegistration kForward({"qk_norm", &QkNorm});
const CpuKernelRegistration kBackward({"qk_norm_backward", &QkNormBackward, &BackwardWorkspace});

}  // namespace
}  // namespace plimsoll::ops
