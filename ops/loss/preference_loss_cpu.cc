// Formulas in preference_loss.h. One thread goes over the rows: one number per token is little work
// compared with the token's logits. Bytes: forward 16·N, backward 20·N, N = B·T.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "ops/kernel.h"
#include "ops/loss/preference_pair.h"

namespace plimsoll::ops {
namespace {

using preference::Document;
using preference::Formula;
using preference::Pair;
using preference::PairLoss;
using preference::PairTerms;

template <typename T>
struct Rows {
  int64_t rows, tokens;  // B, T
  const T* logp;
  const int32_t *targets, *positions;
  const float* reference;

  explicit Rows(const CpuContext& ctx)
      : rows(ctx.in_shape(0).dim(0)),
        tokens(ctx.in_shape(0).dim(1)),
        logp(ctx.in<T>(0)),
        targets(ctx.in<int32_t>(1)),
        positions(ctx.in<int32_t>(2)),
        reference(ctx.in<float>(3)) {}

  // The document that begins at `begin` in a row.
  Document At(int64_t row, int64_t begin) const {
    const int64_t first = row * tokens;
    Document text = {.begin = first + begin, .reference = reference[first + begin]};
    int64_t i = text.begin;
    do {
      if (targets[i] >= 0) {
        ++text.count;
        text.logp += static_cast<double>(logp[i]);
      }
      ++i;
    } while (i < first + tokens && positions[i] != 0);
    // The sum is rounded to float like the reference, so that a model that is its own reference has
    // ratios of 0.
    text.logp = static_cast<double>(static_cast<T>(text.logp));
    text.end = i;
    return text;
  }

  // Calls visit(pair) for the pairs of all rows, in their order.
  template <typename Visit>
  void ForPairs(Visit visit) const {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t at = 0; at < tokens;) {
        Pair pair = {.chosen = At(row, at), .rejected = {}};
        at = pair.chosen.end - row * tokens;
        if (at == tokens) break;
        pair.rejected = At(row, at);
        at = pair.rejected.end - row * tokens;
        if (pair.chosen.count > 0 && pair.rejected.count > 0) visit(pair);
      }
    }
  }
};

template <typename Body>
void Dispatch(const CpuContext& ctx, Body&& body) {
  if (ctx.inputs[0].type.dtype == graph::DType::kFloat64) return body.template operator()<double>();
  body.template operator()<float>();
}

void Loss(const CpuContext& ctx) {
  Dispatch(ctx, [&]<typename T>() {
    const Formula formula(ctx.attributes);
    PairTerms sums;
    Rows<T>(ctx).ForPairs([&](const Pair& pair) { sums.Add(formula.Terms(pair)); });
    sums.values[0] *= static_cast<double>(*ctx.in<float>(4));
    for (size_t i = 0; i < std::size(sums.values); ++i) {
      if (T* const out = ctx.out<T>(i)) *out = static_cast<T>(sums.values[i]);
    }
  });
}

void Backward(const CpuContext& ctx) {
  Dispatch(ctx, [&]<typename T>() {
    const Formula formula(ctx.attributes);
    const Rows<T> rows(ctx);
    const double factor =
        static_cast<double>(*ctx.in<float>(4)) * static_cast<double>(*ctx.in<T>(5));
    T* const dlogp = ctx.out<T>(0);  // may be the memory of logp: a pair's logp is read before its
                                     // dlogp is written
    int64_t written = 0;
    const auto fill = [&](const Document& text, double gradient) {
      std::fill(dlogp + written, dlogp + text.begin, T(0));
      for (int64_t i = text.begin; i < text.end; ++i) {
        dlogp[i] = rows.targets[i] >= 0 ? static_cast<T>(factor * gradient) : T(0);
      }
      written = text.end;
    };
    rows.ForPairs([&](const Pair& pair) {
      const PairLoss of = formula.Of(pair);
      fill(pair.chosen, of.by_chosen);
      fill(pair.rejected, of.by_rejected);
    });
    std::fill(dlogp + written, dlogp + rows.rows * rows.tokens, T(0));
  });
}

const CpuKernelRegistration kLoss({"preference_loss", &Loss});
const CpuKernelRegistration kBackward({"preference_loss_backward", &Backward});

}  // namespace
}  // namespace plimsoll::ops
