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
#include "memory/skyline_placement.h"

namespace plimsoll::memory {
namespace {

enum class Fit { kLowest, kTightest };  // which of the gaps that are large enough to take

// The placed buffers by offset, in the form in which the search for gaps reads them: most of its
// time is spent on finding the buffers that are alive at the same time as another one.
class PlacedBuffers {
 public:
  void Insert(int64_t offset, const Interval& buffer) {
    const auto at = std::upper_bound(begin_.begin(), begin_.end(), offset) - begin_.begin();
    begin_.insert(begin_.begin() + at, offset);
    end_.insert(end_.begin() + at, offset + buffer.size);
    birth_.insert(birth_.begin() + at, buffer.birth);
    death_.insert(death_.begin() + at, buffer.death);
    ++size_;
  }

  int64_t size() const { return size_; }

  // Calls visit(number, begin, end) for the placed buffers that are alive at the same time as
  // `buffer`, until visit returns false.
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
  static constexpr int32_t kNever = -1;  // the death of the entries that pad the last vector

  static __m256i Load(const std::vector<int32_t>& values, int64_t first) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.data() + first));
  }

  int64_t size_ = 0;
  std::vector<int64_t> begin_, end_;
  // The arrays have kLanes more entries than buffers.
  std::vector<int32_t> birth_ = std::vector<int32_t>(kLanes, 0);
  std::vector<int32_t> death_ = std::vector<int32_t>(kLanes, kNever);
};

constexpr int64_t kWorkOfAGap = 16;  // work of a gap in addition to that of its neighbours

int64_t FindGap(const PlacedBuffers& placed, const Interval& buffer, Fit fit, int64_t& work) {
  int64_t gap_begin = 0;
  int64_t best = -1;
  int64_t best_gap = std::numeric_limits<int64_t>::max();
  int64_t looked_at = placed.size();
  placed.ForEachBeside(buffer, [&](int64_t number, int64_t begin, int64_t end) {
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
  work += looked_at + kWorkOfAGap;
  return best >= 0 ? best : gap_begin;
}

// Places sized[i] for each i of `order`, stores its offset in offsets[i], and returns the extent.
// Sizes are not rounded. Stops as soon as the extent reaches the limit. Adds the number of pairs of
// buffers that were compared to `work`.
int64_t PlaceInOrder(std::span<const Interval> sized, std::span<const int32_t> order, Fit fit,
                     int64_t limit, std::vector<int64_t>& offsets, int64_t& work) {
  PlacedBuffers placed;
  int64_t extent = 0;
  for (int32_t index : order) {
    const Interval& buffer = sized[index];
    const int64_t offset = FindGap(placed, buffer, fit, work);
    offsets[index] = offset;
    extent = std::max(extent, offset + buffer.size);
    if (extent >= limit) break;
    placed.Insert(offset, buffer);
  }
  return extent;
}

constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max();

// By time: the bytes that are alive, with sizes rounded up.
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

using Order = std::vector<int32_t>;  // indices of buffers

// Indices of buffers, sorted by descending key, then by birth, then the longest-lived first.
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
      // Buffers that are alive at the peak are placed next to each other without gaps, the
      // longest-lived lowest.
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
      : sized_(sized), target_(target), work_(work), work_left_(work), trial_(sized.size()) {
    best_.offsets.assign(sized.size(), 0);
    best_.extent = kInfinity;
  }

  bool done() const { return best_.extent <= target_ || work_left_ <= 0; }
  // Whether improving step by step isn't worthwhile: the extent is within 0.2 % of the target, or
  // within 0.5 % after half of the work is spent.
  bool good_enough() const {
    const int64_t excess = best_.extent - target_;
    return excess <= target_ / 500 || (work_left_ < work_ / 2 && excess <= target_ / 200);
  }
  Placement& best() { return best_; }
  int64_t work_left() const { return work_left_; }

  // Places the buffers in this order, and updates best(). Returns the extent, or a value that is no
  // lower than the limit.
  int64_t Try(std::span<const int32_t> order, Fit fit, int64_t limit = kInfinity) {
    int64_t work = 0;
    const int64_t extent = PlaceInOrder(sized_, order, fit, limit, trial_, work);
    work_left_ -= work;
    if (extent < best_.extent) {
      best_.extent = extent;
      best_.offsets = trial_;
    }
    return extent;
  }

  // Hill climbing on the order, comparing at most `work` pairs: moves one or two buffers towards
  // the front, mostly buffers that end above the target, and keeps the new order unless its extent
  // is larger.
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
  std::span<const Interval> sized_;
  int64_t target_;
  int64_t work_;
  int64_t work_left_;
  std::vector<int64_t> trial_;
  Placement best_;
};

// Lowers the extent by exact search, of all buffers or of those that make the peak.
class ExactSearches {
 public:
  ExactSearches(std::span<const Interval> sized, std::span<const int64_t> live, int64_t target,
                int64_t work, Search& search)
      : sized_(sized), live_(live), target_(target), work_(work), search_(search) {
    max_live_ = *std::max_element(live.begin(), live.end());
    impossible_ = max_live_ - 1;
    for (const Interval& i : sized) unit_ = std::gcd(unit_, i.size);
  }

  void Run() {
    if (static_cast<int64_t>(sized_.size()) > kCore) {
      TakeTurns();
    } else {
      Approach();
    }
  }

  bool proved() const { return impossible_ >= search_.best().extent - unit_; }
  int64_t nodes() const { return nodes_; }

 private:
  enum class Method { kExact, kSkyline };

  bool done() const { return work_ <= 0 || proved() || search_.best().extent <= target_; }

  Order All() const {
    Order all(sized_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  // The hard part of many buffers is most often the peak, so a core of buffers near the peak is
  // placed exactly. The share of the peak that defines the core is tried in the order in which the
  // traces of docs/measured/memory_plan.md were packed. After that all cores take turns, also with
  // the skyline method, which is cheap.
  void TakeTurns() {
    std::vector<Order> cores;
    for (double share : {0.95, 0.8, 0.98, 0.9, 0.7, 0.5}) cores.push_back(Core(share));
    if (static_cast<int64_t>(sized_.size()) <= kMostExactBuffers) cores.push_back(All());
    const int64_t work = work_;
    for (const Order& core : cores) {
      if (!done()) Try(core, target_, Method::kExact, work_ / 2);
    }
    // If that was not enough, the turns may take a quarter more work.
    if (!done()) work_ += work / 4;
    for (int64_t part = 16; !done(); part /= 2) {
      for (const Order& core : cores) {
        if (!done()) Try(core, target_, Method::kExact, work / std::max(part, int64_t{1}));
        if (!done()) Try(core, target_, Method::kSkyline, work / std::max(part, int64_t{1}));
      }
      if (part == 0) return;
      ++seed_;
    }
  }

  // Searches for a placement at the target, then for any lower extent; the work spent on each
  // capacity grows.
  void Approach() {
    const Order all = All();
    const int64_t work = work_;
    if (!done()) Try(all, target_, Method::kSkyline, work / 4);
    if (!done()) Try(all, target_, Method::kExact, work / 4);
    for (int64_t part = kLeastPart; !done(); part /= 2) {
      ++seed_;
      Halve(all, work / std::max(part, int64_t{1}));
      if (part == 0) return;
    }
  }

  // Halves the interval between the extent and the largest capacity that was given up, until the
  // interval is small. An extent is a sum of sizes, so it is a multiple of their common divisor.
  void Halve(const Order& all, int64_t work) {
    int64_t given_up = std::max(target_, impossible_);
    Try(all, given_up, Method::kSkyline, work);
    while (!done() && search_.best().extent - given_up > std::max(unit_, target_ / 1000)) {
      const int64_t units = (search_.best().extent - given_up) / unit_;
      const int64_t capacity = given_up + std::max(units / 2, int64_t{1}) * unit_;
      for (Method method : {Method::kSkyline, Method::kExact}) {
        if (done() || search_.best().extent <= capacity) break;
        Try(all, capacity, method, work);
      }
      if (search_.best().extent > capacity) given_up = capacity;
    }
  }

  // The largest buffers among those alive at a time when at least `share` of the peak's bytes are
  // alive.
  Order Core(double share) const {
    const double limit = share * static_cast<double>(max_live_);
    std::vector<int32_t> times{0};  // by time: the number of earlier times that reach the limit
    for (int64_t bytes : live_) {
      times.push_back(times.back() + (static_cast<double>(bytes) >= limit ? 1 : 0));
    }
    Order core;
    for (size_t i = 0; i < sized_.size(); ++i) {
      if (times[sized_[i].death + 1] > times[sized_[i].birth]) {
        core.push_back(static_cast<int32_t>(i));
      }
    }
    std::stable_sort(core.begin(), core.end(),
                     [&](int32_t a, int32_t b) { return sized_[a].size > sized_[b].size; });
    core.resize(std::min<size_t>(core.size(), kCore));
    return core;
  }

  // Places a core of the buffers within the capacity, and the others in the gaps.
  void Try(const Order& core, int64_t capacity, Method method, int64_t work) {
    std::vector<Interval> intervals;
    for (int32_t i : core) intervals.push_back(sized_[i]);
    work = std::min(work, work_);
    const ExactPlacement exact = method == Method::kExact
                                     ? PlaceWithin(intervals, capacity, work)
                                     : PlaceAlongSkyline(intervals, capacity, work, seed_);
    work_ -= exact.work;
    nodes_ += exact.nodes;
    if (exact.verdict == Verdict::kImpossible) impossible_ = std::max(impossible_, capacity);
    const auto count = static_cast<int64_t>(sized_.size());
    const int64_t greedy_work = count * count / (2 * kPairsInTimeOfOne);
    if (exact.offsets.empty() || (exact.verdict != Verdict::kPlaced && greedy_work > work)) return;
    // If the core's buffers are placed in order of offset, each in its lowest gap, none lies higher
    // than in `exact`.
    std::vector<int64_t> rank(sized_.size(), kInfinity);
    for (size_t i = 0; i < core.size(); ++i) {
      if (exact.offsets[i] != kUnplaced) rank[core[i]] = exact.offsets[i];
    }
    Order order(sized_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (rank[a] != rank[b]) return rank[a] < rank[b];
      return sized_[a].size != sized_[b].size ? sized_[a].size > sized_[b].size : a < b;
    });
    const int64_t before = search_.work_left();
    search_.Try(order, Fit::kLowest, search_.best().extent);
    work_ -= (before - search_.work_left()) / kPairsInTimeOfOne;
  }

  static constexpr int64_t kCore = 640;  // the most buffers of a core
  // The least part of the work that is spent on one capacity.
  static constexpr int64_t kLeastPart = 32;
  // Greedy placement compares several pairs at a time.
  static constexpr int64_t kPairsInTimeOfOne = 8;

  std::span<const Interval> sized_;
  std::span<const int64_t> live_;
  int64_t target_, work_;
  Search& search_;
  uint32_t seed_ = 0;
  int64_t unit_ = 0;
  int64_t max_live_ = 0;
  int64_t impossible_ = 0;  // extents of at most this many bytes are impossible
  int64_t nodes_ = 0;
};

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
  const int64_t bound = std::max(*peak, options.target);
  ExactSearches exact(sized, live, bound, options.exact_work, search);
  const double tolerated = (1 + options.tolerated) * static_cast<double>(bound);
  if (static_cast<double>(search.best().extent) > tolerated) exact.Run();
  Placement& best = search.best();
  best.max_live = *peak;
  best.proved = best.extent == best.max_live || exact.proved();
  best.nodes = exact.nodes();
  return std::move(best);
}

}  // namespace plimsoll::memory
