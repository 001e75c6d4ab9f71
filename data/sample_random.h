// The random numbers of one sample, one after the other: a pure function of seed, sample and
// purpose.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/random.h"

namespace plimsoll::data {

class SampleRandom {
 public:
  // `purpose`: another stream for each use of the same seed and sample.
  SampleRandom(uint64_t seed, int64_t sample, uint64_t purpose)
      : key_(Hash(seed, static_cast<uint64_t>(sample), purpose)) {}

  // In [0, bound), bound > 0.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(plimsoll::Below(Next(), static_cast<uint64_t>(bound)));
  }
  // In (0, 1): 53 bits.
  double Uniform() { return (static_cast<double>(Next() >> 11) + 0.5) * 0x1p-53; }
  double Uniform(double from, double to) { return from + (to - from) * Uniform(); }

  // Of the standard normal distribution, by Box and Muller's method.
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

  // Of the distribution Beta(alpha, alpha), alpha > 0, by Jöhnk's method: two powers of uniform
  // numbers are taken when their sum is at most 1. In logarithms, since powers of a small alpha
  // underflow. On average it takes Γ(2α + 1) / Γ(α + 1)² tries.
  double Beta(double alpha) {
    for (;;) {
      const double x = std::log(Uniform()) / alpha, y = std::log(Uniform()) / alpha;
      const double largest = std::fmax(x, y);
      const double sum = largest + std::log(std::exp(x - largest) + std::exp(y - largest));
      if (sum <= 0) return std::exp(x - sum);
    }
  }

 private:
  uint64_t Next() { return Hash(key_, count_++); }

  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace plimsoll::data
