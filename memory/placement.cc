#include "memory/placement.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>

#include "base/bytes.h"
#include "base/error.h"
#include "memory/exact_placement.h"

namespace plimsoll::memory {
namespace {

constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max();

// Bytes alive at each time, sizes rounded up.
std::vector<int64_t> LiveBytes(std::span<const Interval> intervals, int64_t alignment) {
  int32_t end = 0;
  for (const Interval& i : intervals) end = std::max(end, i.death + 1);
  std::vector<int64_t> live(static_cast<size_t>(end) + 1, 0);
  for (const Interval& i : intervals) {
    live[i.birth] += RoundUp(i.size, alignment);
    live[i.death + 1] -= RoundUp(i.size, alignment);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

enum class Fit { kLowest, kTightest };

// The buffers that are placed, by offset, as the search for gaps reads them: most of its time goes
// into finding those that are alive at the same time as another one.
class PlacedBuffers {
 public:
  void Clear() {
    size_ = 0;
    begin_.clear();
    end_.clear();
    birth_.assign(kLanes, 0);
    death_.assign(kLanes, kNever);
  }

  void Insert(int64_t offset, const Interval& buffer) {
    const auto at = std::upper_bound(begin_.begin(), begin_.end(), offset) - begin_.begin();
    begin_.insert(begin_.begin() + at, offset);
    end_.insert(end_.begin() + at, offset + buffer.size);
    birth_.insert(birth_.begin() + at, buffer.birth);
    death_.insert(death_.begin() + at, buffer.death);
    ++size_;
  }

  int64_t size() const { return size_; }

  // Calls visit(number, begin, end) for those that are alive at the same time, until it returns
  // false.
  template <typename Visit>
  void ForEachBeside(const Interval& buffer, Visit visit) const {
    const __m256i birth = _mm256_set1_epi32(buffer.birth), death = _mm256_set1_epi32(buffer.death);
    for (int64_t first = 0; first < size_; first += kLanes) {
      const __m256i dead_before = _mm256_cmpgt_epi32(birth, Load(death_, first));
      const __m256i born_later = _mm256_cmpgt_epi32(Load(birth_, first), death);
      const __m256i apart = _mm256_or_si256(dead_before, born_later);
      unsigned beside = ~_mm256_movemask_ps(_mm256_castsi256_ps(apart)) & 0xFFu;
      for (; beside != 0; beside &= beside - 1) {
        const int64_t number = first + std::countr_zero(beside);
        if (!visit(number, begin_[number], end_[number])) return;
      }
    }
  }

 private:
  static constexpr int64_t kLanes = 8;
  static constexpr int32_t kNever = -1;  // the death of what fills up the last lanes

  static __m256i Load(const std::vector<int32_t>& values, int64_t first) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.data() + first));
  }

  int64_t size_ = 0;
  std::vector<int64_t> begin_, end_;
  std::vector<int32_t> birth_, death_;  // kLanes more than there are buffers
};

// Places buffers one by one in a given order.
class Greedy {
 public:
  explicit Greedy(std::span<const Interval> sized) : sized_(sized) {}

  // Fills `offsets` and returns the extent. Adds the number of pairs of buffers looked at to
  // `work`.
  int64_t Run(std::span<const int32_t> order, Fit fit, std::vector<int64_t>& offsets,
              int64_t& work) {
    placed_.Clear();
    int64_t extent = 0;
    for (int32_t index : order) {
      const Interval& buffer = sized_[index];
      const int64_t offset = FindGap(buffer, fit, work);
      offsets[index] = offset;
      extent = std::max(extent, offset + buffer.size);
      placed_.Insert(offset, buffer);
    }
    return extent;
  }

 private:
  int64_t FindGap(const Interval& buffer, Fit fit, int64_t& work) const {
    int64_t gap_begin = 0;
    int64_t best = -1;
    int64_t best_gap = kInfinity;
    int64_t looked_at = placed_.size();
    placed_.ForEachBeside(buffer, [&](int64_t number, int64_t begin, int64_t end) {
      const int64_t gap = begin - gap_begin;
      if (gap >= buffer.size && gap < best_gap) {
        best = gap_begin;
        best_gap = gap;
        if (fit == Fit::kLowest || gap == buffer.size) {
          looked_at = number + 1;
          return false;
        }
      }
      gap_begin = std::max(gap_begin, end);
      return true;
    });
    work += looked_at + kWorkOfABuffer;
    return best >= 0 ? best : gap_begin;
  }

  static constexpr int64_t kWorkOfABuffer = 16;  // apart from its neighbours

  std::span<const Interval> sized_;
  PlacedBuffers placed_;
};

using Order = std::vector<int32_t>;  // indices of buffers

// Indices sorted by descending key, then by birth, longest-lived first.
template <typename Key>
Order SortedBy(std::span<const Interval> sized, Key key) {
  Order order(sized.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto key_a = key(sized[a]);
    const auto key_b = key(sized[b]);
    if (key_a != key_b) return key_a > key_b;
    if (sized[a].birth != sized[b].birth) return sized[a].birth < sized[b].birth;
    return sized[a].death > sized[b].death;
  });
  return order;
}

std::vector<Order> Orders(std::span<const Interval> sized, int32_t peak) {
  auto duration = [](const Interval& i) { return int64_t{i.death} - i.birth + 1; };
  auto at_peak = [peak](const Interval& i) { return i.birth <= peak && i.death >= peak; };
  using Pair = std::pair<int64_t, int64_t>;
  return {
      SortedBy(sized, [&](const Interval& i) { return i.size; }),
      SortedBy(sized, [&](const Interval& i) { return duration(i); }),
      SortedBy(sized,
               [&](const Interval& i) {
                 return static_cast<double>(i.size) * static_cast<double>(duration(i));
               }),
      // Buffers alive at the peak are placed side by side without gaps, the longest-lived lowest.
      SortedBy(sized, [&](const Interval& i) { return Pair(at_peak(i), duration(i)); }),
      SortedBy(sized, [&](const Interval& i) { return Pair(at_peak(i), i.size); }),
      SortedBy(sized, [&](const Interval& i) { return -int64_t{i.birth}; }),
      SortedBy(sized, [&](const Interval& i) { return int64_t{i.death}; }),
  };
}

// Tries orders and keeps the best placement.
class Search {
 public:
  Search(std::span<const Interval> sized, int64_t target, int64_t work)
      : greedy_(sized),
        sized_(sized),
        target_(target),
        work_(work),
        work_left_(work),
        trial_(sized.size()) {
    best_.offsets.assign(sized.size(), 0);
    best_.extent = kInfinity;
  }

  bool done() const { return best_.extent <= target_ || work_left_ <= 0; }
  // Whether improving step by step isn't worthwhile: the extent is within 0.2 % of the target, or
  // within 0.5 % once half of the work is spent.
  bool good_enough() const {
    const int64_t excess = best_.extent - target_;
    return excess <= target_ / 500 || (work_left_ < work_ / 2 && excess <= target_ / 200);
  }
  Placement& best() { return best_; }
  int64_t work_left() const { return work_left_; }

  // Returns the extent, however large; improves best().
  int64_t Try(std::span<const int32_t> order, Fit fit) {
    int64_t work = 0;
    const int64_t extent = greedy_.Run(order, fit, trial_, work);
    work_left_ -= work;
    if (extent < best_.extent) {
      best_.extent = extent;
      best_.offsets = trial_;
    }
    return extent;
  }

  // Hill climbing on the order, looking at no more than `work` pairs: moves one or two buffers
  // towards the front, mostly buffers that end above the target, and keeps the new order unless it
  // is worse.
  void Improve(Order order, Fit fit, int64_t work) {
    std::mt19937 random(12345);  // the C++ standard fixes its sequence
    const int64_t work_at_end = work_left_ - work;
    int64_t extent = Try(order, fit);
    std::vector<int64_t> offsets = trial_;
    Order next;
    std::vector<size_t> too_high;  // positions in the order
    while (!done() && !good_enough() && work_left_ > work_at_end) {
      too_high.clear();
      for (size_t at = 0; at < order.size(); ++at) {
        if (offsets[order[at]] + sized_[order[at]].size > target_) too_high.push_back(at);
      }
      next = order;
      for (int moves = 1 + static_cast<int>(random() % 2); moves > 0; --moves) {
        const bool any = random() % 4 == 0;
        const size_t from = any ? random() % order.size() : too_high[random() % too_high.size()];
        const size_t to = random() % (from + 1);
        std::rotate(next.begin() + to, next.begin() + from, next.begin() + from + 1);
      }
      const int64_t tried = Try(next, fit);
      if (tried > extent) continue;
      extent = tried;
      order.swap(next);
      offsets = trial_;
    }
  }

 private:
  Greedy greedy_;
  std::span<const Interval> sized_;
  int64_t target_;
  int64_t work_;
  int64_t work_left_;
  std::vector<int64_t> trial_;
  Placement best_;
};

// Lowers the extent by exact search: to the target if it can, or by halving what is left above it.
// Any extent is a sum of sizes, so it is a multiple of what divides them all.
void LowerExactly(std::span<const Interval> sized, int64_t target, int64_t work,
                  Placement& placement) {
  int64_t unit = 0;
  for (const Interval& i : sized) unit = std::gcd(unit, i.size);
  int64_t impossible = placement.max_live - 1;  // no extent is that low or lower
  int64_t given_up = target - 1;
  int64_t capacity = target;
  int64_t share = 2;  // of the work that is left
  while (work > 0 && capacity < placement.extent) {
    const ExactPlacement exact = PlaceWithin(sized, capacity, work / share);
    share = 4;
    work -= exact.work;
    placement.nodes += exact.nodes;
    if (exact.verdict == Verdict::kPlaced) {
      placement.offsets = exact.offsets;
      placement.extent = 0;
      for (size_t i = 0; i < sized.size(); ++i) {
        placement.extent = std::max(placement.extent, exact.offsets[i] + sized[i].size);
      }
    } else {
      given_up = capacity;
      if (exact.verdict == Verdict::kImpossible) impossible = capacity;
    }
    capacity = given_up + std::max((placement.extent - given_up) / unit / 2, int64_t{1}) * unit;
  }
  placement.proved = impossible >= placement.extent - unit;
}

}  // namespace

Placement Place(std::span<const Interval> intervals, const PlacementOptions& options) {
  if (options.alignment <= 0) throw InternalError("placement: alignment must be positive");
  std::vector<Interval> sized(intervals.begin(), intervals.end());
  for (Interval& i : sized) {
    if (i.size < 0 || i.birth < 0 || i.death < i.birth) {
      throw InternalError(fmt::format("placement: impossible buffer of {} bytes, alive {}..{}",
                                      i.size, i.birth, i.death));
    }
    i.size = RoundUp(i.size, options.alignment);
  }
  if (sized.empty()) return {.offsets = {}, .proved = true};

  const std::vector<int64_t> live = LiveBytes(sized, options.alignment);
  const auto peak = std::max_element(live.begin(), live.end());
  Search search(sized, std::max(*peak, options.target), options.work);
  const std::vector<Order> orders =
      Orders(sized, static_cast<int32_t>(std::distance(live.begin(), peak)));
  struct Attempt {
    int64_t extent;
    const Order* order;
    Fit fit;
  };
  std::vector<Attempt> attempts;
  for (const Order& order : orders) {
    for (Fit fit : {Fit::kLowest, Fit::kTightest}) {
      if (search.done() && !attempts.empty()) break;
      attempts.push_back({search.Try(order, fit), &order, fit});
    }
  }
  std::stable_sort(attempts.begin(), attempts.end(),
                   [](const Attempt& a, const Attempt& b) { return a.extent < b.extent; });
  const size_t starts = std::min<size_t>(attempts.size(), 4);
  for (size_t i = 0; i < starts && !search.done() && !search.good_enough(); ++i) {
    search.Improve(*attempts[i].order, attempts[i].fit,
                   search.work_left() / static_cast<int64_t>(starts - i));
  }
  Placement& best = search.best();
  best.max_live = *peak;
  const int64_t target = std::max(best.max_live, options.target);
  if (best.extent > target) LowerExactly(sized, target, options.exact_work, best);
  best.proved = best.proved || best.extent == best.max_live;
  return std::move(best);
}

}  // namespace plimsoll::memory
