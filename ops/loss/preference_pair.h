// The loss of a pair of documents and its derivatives, in double (formulas in preference_loss.h):
// code that the kernels for CPUs and for GPUs share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "graph/attributes.h"

// If nvcc compiles this header, its functions are for the GPU, otherwise for the host.
#ifdef __CUDACC__
#define PLIMSOLL_PREFERENCE __device__ inline
#else
#define PLIMSOLL_PREFERENCE inline
#endif

namespace plimsoll::ops::preference {

// A document of a row: tokens [begin, end).
struct Document {
  int64_t begin = 0, end = 0;
  int64_t count = 0;  // number of targets that count
  double logp = 0;    // Σ logp of these targets, rounded to the type of logp
  double reference = 0;

  PLIMSOLL_PREFERENCE double ratio() const { return logp - reference; }
};

// A pair of documents, each with at least one target that counts.
struct Pair {
  Document chosen, rejected;
};

PLIMSOLL_PREFERENCE double Sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
PLIMSOLL_PREFERENCE double LogSigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

// The loss of a pair, and its derivatives by the documents' sums of log-probabilities.
struct PairLoss {
  double loss = 0, by_chosen = 0, by_rejected = 0;
};

inline constexpr int kPairTerms = 8;

// The terms of a pair that the outputs of preference_loss sum, in the order of the outputs; the
// loss without scale.
struct PairTerms {
  double values[kPairTerms] = {};

  PLIMSOLL_PREFERENCE void Add(const PairTerms& other) {
    for (int i = 0; i < kPairTerms; ++i) values[i] += other.values[i];
  }
};

struct Formula {
  bool ipo;
  double beta, smoothing, sft_weight;

  explicit Formula(const graph::Attributes& attributes)
      : ipo(attributes.GetWord("loss") == "ipo"),
        beta(attributes.GetReal("beta")),
        smoothing(attributes.GetReal("label_smoothing")),
        sft_weight(attributes.GetReal("sft_weight")) {}

  PLIMSOLL_PREFERENCE PairLoss Of(const Pair& pair) const {
    const Document &chosen = pair.chosen, &rejected = pair.rejected;
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

  PLIMSOLL_PREFERENCE PairTerms Terms(const Pair& pair) const {
    const double chosen = pair.chosen.ratio(), rejected = pair.rejected.ratio();
    return {{Of(pair).loss, 1, beta * chosen, beta * rejected, beta * (chosen - rejected),
             chosen > rejected ? 1.0 : 0.0, pair.chosen.logp, pair.rejected.logp}};
  }
};

}  // namespace plimsoll::ops::preference

#undef PLIMSOLL_PREFERENCE
