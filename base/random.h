// Counter-based random numbers and a permutation that needs no memory: pure functions of their
// arguments, so that the values of any step of a run can be computed at any time, on any rank.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection of 64 bits that passes BigCrush.
inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t Hash(uint64_t a, uint64_t b) { return Mix(Mix(a + 0x9e3779b97f4a7c15u) ^ b); }
inline uint64_t Hash(uint64_t a, uint64_t b, uint64_t c) { return Hash(Hash(a, b), c); }

// Maps 64 random bits to [0, bound), bound > 0. The bias is below bound / 2^64.
inline uint64_t Below(uint64_t random, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

// A pseudo-random permutation of [0, n), 1 <= n <= 2^62: a Feistel network over the next even
// number of bits, walked along its cycle until it lands inside (Black, Rogaway 2002). The network's
// domain is at most four times n, so the walk takes four rounds on average.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t key) : n_(n), key_(key) {
    const int bits = n <= 2 ? 1 : std::bit_width(n - 1);
    half_ = (bits + 1) / 2;
  }

  uint64_t operator()(uint64_t i) const {
    do i = Encrypt(i);
    while (i >= n_);
    return i;
  }

 private:
  uint64_t Encrypt(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_) - 1;
    uint64_t left = x >> half_, right = x & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (Hash(key_, round, right) & mask);
      left = right;
      right = next;
    }
    return (left << half_) | right;
  }

  uint64_t n_;
  uint64_t key_;
  int half_;
};

}  // namespace plimsoll
