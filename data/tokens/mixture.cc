#include "data/tokens/mixture.h"

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr int kFractionBits = 62;
constexpr uint64_t kAll = uint64_t{1} << kFractionBits;

// Computes n · taken, rounded. If n increases by one, the result increases by zero or one.
int64_t Taken(int64_t n, uint64_t taken) {
  const unsigned __int128 product = static_cast<unsigned __int128>(n) * taken;
  return static_cast<int64_t>((product + kAll / 2) >> kFractionBits);
}

std::vector<double> WeightsOf(const std::vector<MixturePart>& parts) {
  std::vector<double> weights;
  for (const MixturePart& part : parts) weights.push_back(part.weight);
  return weights;
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) {
  double rest = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double total = rest;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0)) throw InternalError("data: a weight that is not above 0");
    shares_.push_back(weights[i] / total);
    const bool last = i + 1 == weights.size();
    const double part = last ? 1 : std::fmin(weights[i] / rest, 1);
    taken_.push_back(static_cast<uint64_t>(std::ldexp(part, kFractionBits)));
    rest -= weights[i];
  }
  if (taken_.empty()) throw InternalError("data: a mixture of nothing");
}

Mixture::Mixture(const std::vector<MixturePart>& parts) : Mixture(WeightsOf(parts)) {}

Mixture::Place Mixture::Of(int64_t sequence) const {
  int64_t rest = sequence;
  for (size_t part = 0;; ++part) {
    const int64_t before = Taken(rest, taken_[part]);
    if (Taken(rest + 1, taken_[part]) > before) return {part, before};
    rest -= before;
  }
}

int64_t Mixture::Count(size_t part, int64_t sequences) const {
  int64_t rest = sequences;
  for (size_t earlier = 0; earlier < part; ++earlier) rest -= Taken(rest, taken_[earlier]);
  return Taken(rest, taken_[part]);
}

}  // namespace plimsoll::data
