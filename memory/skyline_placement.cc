#include "memory/skyline_placement.h"

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/random.h"
#include "memory/sections.h"

namespace plimsoll::memory {
namespace {

struct Tile {
  int64_t size;
  double area, duration;
  int32_t first, last;
  int32_t number;  // the interval's number
};

// Neighbouring sections with the same floor, between sections that are higher or lower.
struct Segment {
  int32_t first, last;
  int64_t floor;
  int32_t ways;  // number of ways to fill the segment; kUnknown until they are counted
  bool from_right;
};

// A way to fill a dent: with an item, after any number of empty sections at the dent's end, or with
// nothing.
struct Way {
  int32_t item;  // the item that is placed, or kNothing
  int32_t empty_first, empty_last;
  int64_t empty_to;  // the floor of the empty sections
  int64_t waste;
  int32_t fits;  // the number of sides on which the skyline becomes level
  double rank;
};

constexpr int32_t kUnknown = -1, kNothing = -1;
constexpr size_t kMostFailed = size_t{1} << 18;

class SkylineSearch {
 public:
  SkylineSearch(std::span<const Interval> intervals, int64_t capacity, int64_t work, uint32_t seed)
      : capacity_(capacity), work_left_(work), seed_(seed) {
    const std::vector<int32_t> times = SectionTimes(intervals);
    const auto count = static_cast<int32_t>(times.size());
    slack_.assign(times.size(), capacity);
    starting_.resize(times.size());
    ending_.resize(times.size());
    offsets_.assign(intervals.size(), 0);
    most_offsets_.assign(intervals.size(), kUnplaced);
    for (size_t i = 0; i < intervals.size(); ++i) {
      const Interval& interval = intervals[i];
      if (interval.size == 0) continue;
      const SectionRange range = RangeOf(interval, times);
      const double duration = interval.death - interval.birth + 1;
      items_.push_back({interval.size, static_cast<double>(interval.size) * duration, duration,
                        range.first, range.last, static_cast<int32_t>(i)});
      for (int32_t s = range.first; s <= range.last; ++s) slack_[s] -= interval.size;
    }
    const auto by_range = [](const Tile& a, const Tile& b) {
      return std::tie(a.first, a.last, a.size, a.number) <
             std::tie(b.first, b.last, b.size, b.number);
    };
    std::sort(items_.begin(), items_.end(), by_range);
    for (size_t x = 0; x < items_.size(); ++x) {
      starting_[items_[x].first].push_back(static_cast<int32_t>(x));
      ending_[items_[x].last].push_back(static_cast<int32_t>(x));
    }
    placed_.assign(items_.size(), false);
    rank_.assign(items_.size(), 0);
    levels_.resize(1);
    levels_[0].segments = {{0, count - 1, 0, kUnknown, false}};
  }

  Verdict Run() {
    if (items_.empty()) return capacity_ >= 0 ? Verdict::kPlaced : Verdict::kImpossible;
    if (*std::min_element(slack_.begin(), slack_.end()) < 0) return Verdict::kImpossible;
    std::mt19937 random(seed_);
    const auto count = static_cast<int64_t>(items_.size());
    for (int64_t turn = 0;; ++turn) {
      for (size_t x = 0; x < items_.size(); ++x) {
        const Tile& item = items_[x];
        const double rank[] = {item.area, static_cast<double>(item.size), item.duration};
        const double noise = static_cast<double>(random() % 1024) / 1024;
        rank_[x] = rank[(seed_ + turn) % 3] * (1 + (turn == 0 ? 0 : 4 * noise));
      }
      nodes_left_ = 3 * count * (turn / 4 + 1);
      const Verdict verdict = Solve(0, static_cast<int64_t>(items_.size()));
      if (verdict != Verdict::kUndecided || work_left_ <= 0) return verdict;
    }
  }

  std::vector<int64_t>& offsets() { return offsets_; }
  std::vector<int64_t>& most_offsets() { return most_offsets_; }
  int64_t nodes() const { return nodes_; }
  int64_t work_left() const { return work_left_; }

 private:
  struct Level {
    std::vector<Segment> segments;
    std::vector<Way> ways;
  };

  int64_t LeftOf(const std::vector<Segment>& segments, size_t at) const {
    return at == 0 ? capacity_ : segments[at - 1].floor;
  }
  int64_t RightOf(const std::vector<Segment>& segments, size_t at) const {
    return at + 1 == segments.size() ? capacity_ : segments[at + 1].floor;
  }

  // Calls visit(way) for the ways to fill a dent from one end, until visit returns false.
  template <typename Visit>
  void ForEachWay(const std::vector<Segment>& segments, size_t at, bool from_right, Visit visit) {
    const Segment& dent = segments[at];
    const int64_t floor = dent.floor;
    int64_t near = LeftOf(segments, at), far = RightOf(segments, at);
    if (from_right) std::swap(near, far);
    int64_t spare = std::numeric_limits<int64_t>::max();  // slack of the sections that stay empty
    for (int32_t empty = 0; empty <= dent.last - dent.first; ++empty) {
      const int32_t s = from_right ? dent.last - empty : dent.first + empty;
      --work_left_;
      for (int32_t x : from_right ? ending_[s] : starting_[s]) {
        const Tile& item = items_[x];
        --work_left_;
        if (placed_[x] || item.first < dent.first || item.last > dent.last) continue;
        const int64_t empty_to = std::min(near, floor + item.size);
        if (empty > 0 && empty_to - floor > spare) continue;
        const int64_t top = floor + item.size;
        const bool reaches = from_right ? item.first == dent.first : item.last == dent.last;
        Way way{.item = x,
                .empty_first = from_right ? s + 1 : dent.first,
                .empty_last = from_right ? dent.last : s - 1,
                .empty_to = empty_to,
                .waste = empty * (empty_to - floor),
                .fits = (empty == 0 && top == near) + reaches + (reaches && top == far),
                .rank = rank_[x]};
        if (!visit(way)) return;
      }
      spare = std::min(spare, slack_[s]);
      if (spare <= 0) return;
    }
    const int64_t empty_to = std::min(near, far);
    if (empty_to - floor > spare) return;
    visit(Way{.item = kNothing,
              .empty_first = dent.first,
              .empty_last = dent.last,
              .empty_to = empty_to,
              .waste = (dent.last - dent.first + 1) * (empty_to - floor),
              .fits = 0,
              .rank = 0});
  }

  void CountWays(std::vector<Segment>& segments, size_t at, int32_t most) {
    Segment& dent = segments[at];
    dent.ways = most;
    for (bool from_right : {false, true}) {
      int32_t ways = 0;
      ForEachWay(segments, at, from_right, [&](const Way&) { return ++ways < dent.ways; });
      if (ways < dent.ways) {
        dent.ways = ways;
        dent.from_right = from_right;
      }
    }
  }

  // Returns the dent with the fewest ways to fill it; of several, the lowest.
  size_t ChooseDent(std::vector<Segment>& segments) {
    size_t best = 0;
    bool found = false;
    for (size_t at = 0; at < segments.size(); ++at) {
      --work_left_;
      Segment& segment = segments[at];
      if (LeftOf(segments, at) < segment.floor || RightOf(segments, at) < segment.floor) continue;
      if (segment.ways == kUnknown) CountWays(segments, at, kMostWays);
      if (!found || std::tie(segment.ways, segment.floor) <
                        std::tie(segments[best].ways, segments[best].floor)) {
        best = at;
        found = true;
      }
      if (segment.ways == 0) break;
    }
    return best;
  }

  static void Append(std::vector<Segment>& segments, const Segment& segment) {
    if (segment.first > segment.last) return;
    if (!segments.empty() && segments.back().floor == segment.floor) {
      segments.back().last = segment.last;
      segments.back().ways = kUnknown;
    } else {
      segments.push_back(segment);
    }
  }

  void Fill(const std::vector<Segment>& from, size_t at, const Way& way,
            std::vector<Segment>& to) const {
    to.assign(from.begin(), from.begin() + static_cast<int64_t>(at));
    if (at > 0) to.back().ways = kUnknown;
    const Segment& dent = from[at];
    const Segment empty{way.empty_first, way.empty_last, way.empty_to, kUnknown, false};
    if (way.item == kNothing) {
      Append(to, empty);
    } else {
      const Tile& item = items_[way.item];
      const bool left = way.empty_first <= way.empty_last && way.empty_first == dent.first;
      if (left) {
        Append(to, empty);
      } else {
        Append(to, {dent.first, item.first - 1, dent.floor, kUnknown, false});
      }
      Append(to, {item.first, item.last, dent.floor + item.size, kUnknown, false});
      if (!left && way.empty_first <= way.empty_last) {
        Append(to, empty);
      } else {
        Append(to, {item.last + 1, dent.last, dent.floor, kUnknown, false});
      }
    }
    if (at + 1 < from.size()) {
      Append(to, from[at + 1]);
      to.back().ways = kUnknown;
      to.insert(to.end(), from.begin() + static_cast<int64_t>(at) + 2, from.end());
    }
  }

  uint64_t KeyOf(const std::vector<Segment>& segments) const {
    uint64_t key = set_;
    for (const Segment& s : segments)
      key += Hash(static_cast<uint64_t>(s.first), static_cast<uint64_t>(s.floor));
    return key;
  }

  // Places the items that are left. If it returns kImpossible, blame_ is a range of sections:
  // because of the floors of these sections, the items that are left cannot be placed, whatever the
  // floors of the other sections are.
  Verdict Solve(size_t depth, int64_t left) {
    if (left == 0) return Verdict::kPlaced;
    if (levels_.size() < depth + 2) levels_.resize(depth + 2);
    const uint64_t key = KeyOf(levels_[depth].segments);
    if (const auto failed = failed_.find(key); failed != failed_.end()) {
      blame_ = failed->second;
      return Verdict::kImpossible;
    }
    const size_t at = ChooseDent(levels_[depth].segments);
    const Segment dent = levels_[depth].segments[at];
    // The ways depend only on the dent and its sides.
    SectionRange blame{dent.first - 1, dent.last + 1};
    if (dent.ways == 0) {
      NoteDeadEnd();
      blame_ = blame;
      return Verdict::kImpossible;
    }
    levels_[depth].ways.clear();
    ForEachWay(levels_[depth].segments, at, dent.from_right, [&](const Way& way) {
      levels_[depth].ways.push_back(way);
      return true;
    });
    std::stable_sort(levels_[depth].ways.begin(), levels_[depth].ways.end(),
                     [](const Way& a, const Way& b) {
                       return std::tie(a.waste, b.fits, b.rank) < std::tie(b.waste, a.fits, a.rank);
                     });
    for (size_t w = 0; w < levels_[depth].ways.size(); ++w) {
      const Way way = levels_[depth].ways[w];
      if (w > 0 && Alike(way, levels_[depth].ways[w - 1])) continue;
      if (nodes_left_ <= 0 || work_left_ <= 0) return Verdict::kUndecided;
      --nodes_left_;
      ++nodes_;
      work_left_ -= kWorkOfANode;
      Apply(way, dent, 1);
      Fill(levels_[depth].segments, at, way, levels_[depth + 1].segments);
      const Verdict verdict = Solve(depth + 1, left - (way.item != kNothing));
      Apply(way, dent, -1);
      if (verdict != Verdict::kImpossible) return verdict;
      // If what this way changes is not to blame, no other way can succeed either.
      const SectionRange changed = ChangedBy(way);
      if (changed.last < blame_.first || blame_.last < changed.first) {
        blame = blame_;
        break;
      }
      blame = {std::min(blame.first, blame_.first), std::max(blame.last, blame_.last)};
    }
    if (failed_.size() < kMostFailed) failed_.emplace(key, blame);
    blame_ = blame;
    return Verdict::kImpossible;
  }

  void NoteDeadEnd() {
    if (area_ <= most_area_) return;
    most_area_ = area_;
    for (size_t x = 0; x < items_.size(); ++x) {
      const int32_t number = items_[x].number;
      most_offsets_[number] = placed_[x] ? offsets_[number] : kUnplaced;
    }
  }

  SectionRange ChangedBy(const Way& way) const {
    if (way.item == kNothing) return {way.empty_first, way.empty_last};
    const Tile& item = items_[way.item];
    if (way.empty_first > way.empty_last) return {item.first, item.last};
    return {std::min(item.first, way.empty_first), std::max(item.last, way.empty_last)};
  }

  // Places a way's item or empty sections; sign -1 undoes it.
  void Apply(const Way& way, const Segment& dent, int sign) {
    for (int32_t s = way.empty_first; s <= way.empty_last; ++s) {
      slack_[s] -= sign * (way.empty_to - dent.floor);
    }
    if (way.item == kNothing) return;
    placed_[way.item] = sign > 0;
    area_ += sign * items_[way.item].area;
    if (sign > 0) offsets_[items_[way.item].number] = dent.floor;
    set_ += static_cast<uint64_t>(sign) * Mix(~static_cast<uint64_t>(way.item));
  }

  bool Alike(const Way& a, const Way& b) const {
    if (a.item == kNothing || b.item == kNothing) return false;
    const Tile &x = items_[a.item], &y = items_[b.item];
    return x.size == y.size && x.first == y.first && x.last == y.last;
  }

  static constexpr int32_t kMostWays = 64;
  static constexpr int64_t kWorkOfANode = 60;

  int64_t capacity_;
  int64_t work_left_;
  uint32_t seed_;
  std::vector<Tile> items_;
  std::vector<std::vector<int32_t>> starting_,
      ending_;                  // by section: the items that start, or end, in this section
  std::vector<int64_t> slack_;  // by section: bytes that may stay empty
  std::vector<int64_t> offsets_;
  // The offsets of the dead end that had the most area placed.
  std::vector<int64_t> most_offsets_;
  double area_ = 0, most_area_ = 0;
  std::vector<bool> placed_;
  std::vector<double> rank_;
  std::vector<Level> levels_;
  std::unordered_map<uint64_t, SectionRange>
      failed_;  // maps the key of a state that failed to the sections to blame
  SectionRange blame_;
  uint64_t set_ = 0;  // key of the set of placed items
  int64_t nodes_ = 0, nodes_left_ = 0;
};

}  // namespace

ExactPlacement PlaceAlongSkyline(std::span<const Interval> intervals, int64_t capacity,
                                 int64_t work, uint32_t seed) {
  ExactPlacement result;
  if (static_cast<int64_t>(intervals.size()) > kMostExactBuffers) return result;
  SkylineSearch search(intervals, capacity, work, seed);
  result.verdict = search.Run();
  result.offsets =
      std::move(result.verdict == Verdict::kPlaced ? search.offsets() : search.most_offsets());
  result.nodes = search.nodes();
  result.work = work - search.work_left();
  return result;
}

}  // namespace plimsoll::memory
