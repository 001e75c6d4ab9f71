// Formulas in preference_loss.h. One thread goes over the rows: a number for each token is little
// next to the logits that it was made of. Bytes: forward 16·N, backward 20·N, N = B·T.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

// A document of a row: tokens [begin, end).
struct Text {
  int64_t begin = 0, end = 0;
  int64_t count = 0;  // targets that count
  double logp = 0;    // their sum
  double reference = 0;
  double ratio() const { return logp - reference; }
};

struct Pair {
  Text chosen, rejected;
};

double Sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double LogSigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// The loss of a pair, and its derivatives by the sums of log-probabilities.
struct PairLoss {
  double loss = 0, by_chosen = 0, by_rejected = 0;
};

struct Formula {
  bool ipo;
  double beta, smoothing, sft_weight;

  explicit Formula(const graph::Attributes& attributes)
      : ipo(attributes.GetWord("loss") == "ipo"),
        beta(attributes.GetReal("beta")),
        smoothing(attributes.GetReal("label_smoothing")),
        sft_weight(attributes.GetReal("sft_weight")) {}

  PairLoss Of(const Pair& pair) const {
    const Text &chosen = pair.chosen, &rejected = pair.rejected;
    const double of_chosen = 1 / static_cast<double>(chosen.count);
    const double of_rejected = 1 / static_cast<double>(rejected.count);
    PairLoss of;
    if (ipo) {
      const double off =
          chosen.ratio() * of_chosen - rejected.ratio() * of_rejected - 1 / (2 * beta);
      of = {off * off, 2 * off * of_chosen, -2 * off * of_rejected};
    } else {
      const double logit = beta * (chosen.ratio() - rejected.ratio());
      const double by_difference =
          beta * (smoothing * Sigmoid(logit) - (1 - smoothing) * Sigmoid(-logit));
      of = {-(1 - smoothing) * LogSigmoid(logit) - smoothing * LogSigmoid(-logit), by_difference,
            -by_difference};
    }
    of.loss -= sft_weight * chosen.logp * of_chosen;
    of.by_chosen -= sft_weight * of_chosen;
    return of;
  }
};

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

  // The document of a row that begins at `begin`.
  Text At(int64_t row, int64_t begin) const {
    const int64_t first = row * tokens;
    Text text = {.begin = first + begin, .reference = reference[first + begin]};
    int64_t i = text.begin;
    do {
      if (targets[i] >= 0) {
        ++text.count;
        text.logp += static_cast<double>(logp[i]);
      }
      ++i;
    } while (i < first + tokens && positions[i] != 0);
    // As the reference is a float, a model that is its own reference has ratios of 0.
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
    double loss = 0;
    std::array<double, 7> sums = {};  // as the outputs after the loss
    Rows<T>(ctx).ForPairs([&](const Pair& pair) {
      const double chosen = pair.chosen.ratio(), rejected = pair.rejected.ratio();
      loss += formula.Of(pair).loss;
      const std::array<double, 7> of_pair = {1,
                                             formula.beta * chosen,
                                             formula.beta * rejected,
                                             formula.beta * (chosen - rejected),
                                             chosen > rejected ? 1.0 : 0.0,
                                             pair.chosen.logp,
                                             pair.rejected.logp};
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_pair[i];
    });
    *ctx.out<T>(0) = static_cast<T>(loss * static_cast<double>(*ctx.in<float>(4)));
    for (size_t i = 0; i < sums.size(); ++i) {
      if (T* const out = ctx.out<T>(i + 1)) *out = static_cast<T>(sums[i]);
    }
  });
}

void Backward(const CpuContext& ctx) {
  Dispatch(ctx, [&]<typename T>() {
    const Formula formula(ctx.attributes);
    const Rows<T> rows(ctx);
    const double factor =
        static_cast<double>(*ctx.in<float>(4)) * static_cast<double>(*ctx.in<T>(5));
    T* const dlogp = ctx.out<T>(0);  // may be logp's memory: a pair's is read before it is written
    int64_t written = 0;
    const auto fill = [&](const Text& text, double gradient) {
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
