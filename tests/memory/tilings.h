// Buffers that fill a rectangle of times × bytes without gaps, for tests of placement: the lowest
// extent is known, and no placement that reaches it has slack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

struct Tiling {
  int parts = 100;
  int32_t times = 1000;
  int64_t bytes = 1000;
  // Of the cuts, those that make five parts that no straight cut takes apart.
  double pinwheels = 0;
  // Cuts the largest part instead of any: parts are alike.
  bool even = false;
  int removed = 0;  // parts that are left out: there are gaps, and the lowest extent may be lower
};

namespace tilings {

struct Part {
  int64_t offset, size;
  int32_t birth, times;

  double area() const { return static_cast<double>(size) * times; }
};

// A number from 1 to below `end`, which is ≥ 2.
inline int64_t Within(std::mt19937& random, int64_t end) {
  return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(end - 1));
}

// Two numbers, 0 < first < second < end, where `end` is ≥ 3.
inline std::pair<int64_t, int64_t> TwoWithin(std::mt19937& random, int64_t end) {
  const int64_t first = Within(random, end - 1);
  return {first, first + Within(random, end - first)};
}

// Cuts a part along a time or an offset. Returns false where it is too small.
inline bool Halve(std::mt19937& random, Part part, std::vector<Part>& parts) {
  Part other = part;
  if (random() % 2 == 0) {
    if (part.size < 2) return false;
    part.size = Within(random, part.size);
    other.offset += part.size;
    other.size -= part.size;
  } else {
    if (part.times < 2) return false;
    part.times = static_cast<int32_t>(Within(random, part.times));
    other.birth += part.times;
    other.times -= part.times;
  }
  parts.push_back(part);
  parts.push_back(other);
  return true;
}

// Cuts a part into four that go round a fifth one.
inline bool Turn(std::mt19937& random, const Part& part, std::vector<Part>& parts) {
  if (part.size < 3 || part.times < 3) return false;
  const auto [low, high] = TwoWithin(random, part.size);
  const auto [early, late] = TwoWithin(random, part.times);
  const auto t = static_cast<int32_t>(early), u = static_cast<int32_t>(late);
  const bool mirrored = random() % 2 == 0;
  for (Part p : {Part{0, low, 0, u}, Part{0, high, u, part.times - u},
                 Part{high, part.size - high, t, part.times - t}, Part{low, part.size - low, 0, t},
                 Part{low, high - low, t, u - t}}) {
    if (mirrored) p.birth = part.times - p.birth - p.times;
    parts.push_back({part.offset + p.offset, p.size, part.birth + p.birth, p.times});
  }
  return true;
}

}  // namespace tilings

inline std::vector<Interval> MakeTiling(uint32_t seed, const Tiling& tiling) {
  using tilings::Part;
  std::mt19937 random(seed);  // its sequence is the standard's, unlike that of distributions
  std::vector<Part> parts{{0, tiling.bytes, 0, tiling.times}};
  const auto pinwheels = static_cast<uint32_t>(1000 * tiling.pinwheels);
  while (static_cast<int>(parts.size()) < tiling.parts) {
    auto cut = parts.begin() + static_cast<int64_t>(random() % parts.size());
    if (tiling.even) {
      cut = std::max_element(parts.begin(), parts.end(),
                             [](const Part& a, const Part& b) { return a.area() < b.area(); });
    }
    const Part part = *cut;
    *cut = parts.back();
    parts.pop_back();
    const bool done = random() % 1000 < pinwheels ? tilings::Turn(random, part, parts)
                                                  : tilings::Halve(random, part, parts);
    if (!done) parts.push_back(part);
  }
  std::vector<Interval> intervals;
  for (const Part& p : parts) intervals.push_back({p.size, p.birth, p.birth + p.times - 1});
  for (size_t i = intervals.size(); i > 1; --i) {
    std::swap(intervals[i - 1], intervals[random() % i]);
  }
  intervals.resize(intervals.size() - static_cast<size_t>(tiling.removed));
  return intervals;
}

}  // namespace plimsoll::memory
