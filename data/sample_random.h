// A sequence of random numbers for one sample: a pure function of seed, sample and purpose.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/random.h"

namespace plimsoll::data {

class SampleRandom {
 public:
  // Each use of the same seed and sample needs its own `purpose`.
  SampleRandom(uint64_t seed, int64_t sample, uint64_t purpose)
      : key_(Hash(seed, static_cast<uint64_t>(sample), purpose)) {}

  // Returns a number in [0, bound); bound > 0.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(plimsoll::Below(Next(), static_cast<uint64_t>(bound)));
  }
  // Returns a number in (0, 1) with 53 random bits.
  double Uniform() { return (static_cast<double>(Next() >> 11) + 0.5) * 0x1p-53; }
  double Uniform(double from, double to) { return from + (to - from) * Uniform(); }

  // Returns a standard normal number, by the Box-Muller method.
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

  // Returns a number of the distribution Beta(alpha, alpha), alpha > 0, by Jöhnk's method: draws
  // two powers of uniform numbers until their sum is at most 1. Uses logarithms, since powers of a
  // small alpha underflow. Needs Γ(2α + 1) / Γ(α + 1)² tries on average.
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
