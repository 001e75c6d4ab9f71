// Philox4x32, a counter-based random generator: a block of four 32-bit words is a pure function of
// counter and key, so any thread can compute any element's draw, in any order, again. Salmon,
// Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3. Seven
// rounds pass all of its tests, ten leave a margin.
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll {

inline constexpr int kPhiloxRounds = 10;

// Computes one block. It reproduces the known answers of the paper's library (Random123).
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key,
                                   int rounds = kPhiloxRounds);

// A stream of words, one for each 64-bit index: word i is word i % 4 of the block with counter
// (i / 4 low, i / 4 high, stream low, stream high).
class PhiloxStream {
 public:
  // A stream for a random op: `rng` is the op's input (seed, micro-step), `stream` its attribute
  // "key".
  PhiloxStream(const int32_t rng[2], int64_t stream, int rounds = kPhiloxRounds)
      : key_{static_cast<uint32_t>(rng[0]), static_cast<uint32_t>(rng[1])},
        stream_(static_cast<uint64_t>(stream)),
        rounds_(rounds) {}

  // Computes words first, first + 1, … first + count − 1. Fastest if `first` is a multiple of 4 and
  // `count` a multiple of 32.
  void Words(uint64_t first, int64_t count, uint32_t* words) const;

 private:
  std::array<uint32_t, 4> Block(uint64_t index) const;

  std::array<uint32_t, 2> key_;
  uint64_t stream_;
  int rounds_;
};

// The threshold for dropping with probability p: an element is dropped if its word is below it. 0 ≤
// p < 1, with a resolution of 2⁻³².
uint32_t DropThreshold(double p);

}  // namespace plimsoll
