#include "memory/exact_placement.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/random.h"
#include "memory/sections.h"

namespace plimsoll::memory {
namespace {

constexpr int64_t kWorkOfABuffer = 4;  // work of a buffer in addition to that of its sections
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

// A state of the search as a key of 128 bits: the sum of the keys of the state's parts. Two states
// of one search are as unlikely to have the same key as the memory that holds them is to fail.
struct Key {
  uint64_t low = 0, high = 0;

  void Add(uint64_t part, uint64_t value) {
    const uint64_t mixed = Hash(part, value);
    low += mixed;
    high += Mix(mixed ^ 0x5851f42d4c957f2du);
  }
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const { return key.low; }
};

// A buffer, with its lifetime as a range of sections.
struct Item {
  int64_t size;
  int64_t duration;
  int32_t first, last;

  bool Meets(const Item& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Item&) const = default;
};

// A criterion that ranks the buffers that can have the same offset.
enum class By { kLoad, kArea, kDuration, kSize };
using Ranking = std::array<By, 3>;
constexpr Ranking kRankings[] = {
    {By::kLoad, By::kArea, By::kDuration}, {By::kLoad, By::kDuration, By::kArea},
    {By::kDuration, By::kArea, By::kLoad}, {By::kArea, By::kDuration, By::kLoad},
    {By::kLoad, By::kSize, By::kDuration},
};

class ExactSearch {
 public:
  ExactSearch(std::span<const Interval> intervals, int64_t capacity, int64_t work)
      : capacity_(capacity), work_left_(work) {
    const std::vector<int32_t> times = SectionTimes(intervals);
    for (const Interval& i : intervals) {
      const SectionRange range = RangeOf(i, times);
      items_.push_back({i.size, int64_t{i.death} - i.birth + 1, range.first, range.last});
    }
    const size_t count = items_.size();
    sections_.resize(times.size());
    for (const Item& item : items_) {
      for (int32_t s = item.first; s <= item.last; ++s) sections_[s].load += item.size;
    }
    support_.assign(count, 0);
    barred_below_.assign(count, 0);
    least_.assign(count, 0);
    supported_.assign(count, false);
    offsets_.assign(count, 0);
    load_.assign(count, 0);
  }

  // Tries the rankings in turn. Searches of this kind either succeed soon or fail for long, so
  // turns are short at first.
  Verdict Run() {
    Part all;  // without empty buffers, which may have any offset
    for (size_t x = 0; x < items_.size(); ++x) {
      if (items_[x].size > 0) all.push_back(static_cast<int32_t>(x));
    }
    if (all.empty()) return capacity_ >= 0 ? Verdict::kPlaced : Verdict::kImpossible;
    std::stable_sort(all.begin(), all.end(),
                     [&](int32_t a, int32_t b) { return items_[a].first < items_[b].first; });
    const auto count = static_cast<int64_t>(all.size());
    for (int64_t turn = 4 * count;; turn *= 4) {
      for (const Ranking& ranking : kRankings) {
        ranking_ = ranking;
        LoadPart(all);
        loads_.clear();
        nodes_left_ = turn;
        switch (Solve(all, 0)) {
          case Verdict::kPlaced:
            return Verdict::kPlaced;
          case Verdict::kImpossible:
            return Verdict::kImpossible;
          case Verdict::kUndecided:
            if (work_left_ <= 0) return Verdict::kUndecided;
        }
      }
    }
  }

  std::vector<int64_t>& offsets() { return offsets_; }
  int64_t nodes() const { return nodes_; }
  int64_t work_left() const { return work_left_; }

 private:
  using Part = std::vector<int32_t>;  // unplaced buffers, by first section

  struct Section {
    int64_t load = 0;   // bytes of unplaced buffers
    int64_t floor = 0;  // the least offset of an unplaced buffer
    // Buffers are visited from the highest least offset to the lowest. Of the buffers visited so
    // far:
    int64_t seen = 0;   // the sum of their bytes
    int64_t slack = 0;  // the fewest spare bytes above the least offset of one of these buffers
    int64_t slack_from = 0;  // the least offset of the buffer with that slack
    // Buffers whose least offset is ≥ lifted_from cannot start below lifted_to.
    int64_t lifted_from = 0, lifted_to = 0;
    // The lowest and second lowest end that a buffer of this section could have.
    int64_t end = 0, next_end = 0;
    int32_t lowest = -1;
  };

  struct Choice {
    int64_t offset;
    std::array<int64_t, 3> rank;
    int32_t buffer;
  };

  // Places the buffers of a part at `offset` or above.
  Verdict Solve(const Part& part, int64_t offset) {
    std::vector<Part> parts = Apart(part);
    if (parts.size() == 1) return SolveConnected(part, offset);
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.size() < b.size(); });
    const size_t loads = loads_.size();
    Verdict verdict = Verdict::kPlaced;
    for (const Part& one : parts) {
      LoadPart(one);
      verdict = SolveConnected(one, offset);
      Restore(loads_, loads, load_);
      if (verdict != Verdict::kPlaced) break;
    }
    return verdict;
  }

  // Stores for each buffer of the part the greatest load of its sections, which ranks it. The loads
  // at the time when a part splits off rank better than present loads.
  void LoadPart(const Part& part) {
    for (int32_t x : part) {
      int64_t load = 0;
      for (int32_t s = items_[x].first; s <= items_[x].last; ++s) {
        load = std::max(load, sections_[s].load);
      }
      loads_.emplace_back(x, load_[x]);
      load_[x] = load;
    }
  }

  // Splits a part into parts that share no section.
  std::vector<Part> Apart(const Part& part) const {
    std::vector<Part> parts;
    int32_t last = -1;
    for (int32_t x : part) {
      if (items_[x].first > last) parts.emplace_back();
      parts.back().push_back(x);
      last = std::max(last, items_[x].last);
    }
    return parts;
  }

  Verdict SolveConnected(const Part& part, int64_t offset) {
    if (!Bound(part, offset)) return Verdict::kImpossible;
    const Key key = KeyOf(part);
    if (failed_.contains(key)) return Verdict::kImpossible;
    const std::vector<Choice> choices = Choices(part);
    const size_t bars = bars_.size();
    Verdict verdict = Verdict::kImpossible;
    Part rest;
    for (size_t c = 0; c < choices.size(); ++c) {
      const int32_t x = choices[c].buffer;
      const Item& item = items_[x];
      // Of several equal buffers, only the first is tried.
      if (std::any_of(choices.begin(), choices.begin() + c,
                      [&](const Choice& other) { return items_[other.buffer] == item; })) {
        continue;
      }
      if (nodes_left_ <= 0 || work_left_ <= 0) {
        verdict = Verdict::kUndecided;
        break;
      }
      --nodes_left_;
      ++nodes_;
      const int64_t at = choices[c].offset;
      const size_t supports = supports_.size();
      bool lifts = false;
      rest.clear();
      for (int32_t y : part) {
        if (y == x) continue;
        rest.push_back(y);
        if (!items_[y].Meets(item) || support_[y] >= at + item.size) continue;
        lifts = true;
        supports_.emplace_back(y, support_[y]);
        support_[y] = at + item.size;
      }
      for (int32_t s = item.first; s <= item.last; ++s) sections_[s].load -= item.size;
      offsets_[x] = at;
      verdict = rest.empty() ? Verdict::kPlaced : Solve(rest, at);
      for (int32_t s = item.first; s <= item.last; ++s) sections_[s].load += item.size;
      Restore(supports_, supports, support_);
      // If the buffer raises the least offset of no other buffer, it did not cause the failure, and
      // other choices fail, too.
      if (verdict != Verdict::kImpossible || !lifts) break;
      // With this buffer at this offset, all placements of the other buffers at this offset or
      // above have been tried.
      bars_.emplace_back(x, barred_below_[x]);
      barred_below_[x] = at + 1;
    }
    Restore(bars_, bars, barred_below_);
    if (verdict == Verdict::kImpossible) failed_.insert(key);
    return verdict;
  }

  using Changes = std::vector<std::pair<int32_t, int64_t>>;  // buffer, and its previous value

  static void Restore(Changes& changes, size_t size, std::vector<int64_t>& values) {
    for (; changes.size() > size; changes.pop_back()) {
      values[changes.back().first] = changes.back().second;
    }
  }

  // Finds least offsets of buffers and floors of sections. Returns false if some buffer or section
  // ends above the capacity.
  bool Bound(const Part& part, int64_t offset) {
    for (int32_t x : part) {
      work_left_ -= items_[x].last - items_[x].first + kWorkOfABuffer;
      least_[x] = std::max({support_[x], offset, barred_below_[x]});
      supported_[x] = least_[x] == support_[x];
    }
    LiftUnsupported(part);
    by_least_ = part;
    if (!Pack(part)) return false;
    return !LiftAboveOthers(part) || Pack(part);
  }

  std::span<Section> SectionsOf(const Part& part) {
    int32_t last = 0;
    for (int32_t x : part) last = std::max(last, items_[x].last);
    const int32_t first = items_[part.front()].first;
    return {sections_.begin() + first, sections_.begin() + last + 1};
  }

  // Raises buffers that cannot be on top of a placed buffer: they must be on top of a buffer of the
  // part.
  void LiftUnsupported(const Part& part) {
    for (Section& section : SectionsOf(part)) {
      section.end = section.next_end = kNever;
      section.lowest = -1;
    }
    for (int32_t x : part) {
      const int64_t end = least_[x] + items_[x].size;
      for (int32_t s = items_[x].first; s <= items_[x].last; ++s) {
        Section& section = sections_[s];
        if (end < section.end) {
          section.next_end = std::exchange(section.end, end);
          section.lowest = x;
        } else {
          section.next_end = std::min(section.next_end, end);
        }
      }
    }
    for (int32_t x : part) {
      if (supported_[x]) continue;
      int64_t least = kNever;
      for (int32_t s = items_[x].first; s <= items_[x].last; ++s) {
        const Section& section = sections_[s];
        least = std::min(least, section.lowest == x ? section.next_end : section.end);
      }
      least_[x] = std::max(least_[x], least);
    }
  }

  // In every section, the buffers with the greatest least offsets must fit above the smallest of
  // these offsets.
  bool Pack(const Part& part) {
    std::sort(by_least_.begin(), by_least_.end(), [&](int32_t a, int32_t b) {
      return least_[a] != least_[b] ? least_[a] > least_[b] : a < b;
    });
    for (Section& section : SectionsOf(part)) {
      section.floor = section.seen = section.slack_from = 0;
      section.lifted_to = section.lifted_from = 0;
      section.slack = kNever;
    }
    for (int32_t x : by_least_) {
      const Item& item = items_[x];
      const int64_t least = least_[x];
      if (least + item.size > capacity_) return false;
      for (int32_t s = item.first; s <= item.last; ++s) {
        Section& section = sections_[s];
        // If this buffer doesn't fit above the least offset of the others, it lies below all the
        // others.
        if (item.size > section.slack && least + item.size > section.slack_from) {
          section.lifted_from = section.slack_from;
          section.lifted_to = least + item.size;
        }
        section.seen += item.size;
        section.floor = least;
        const int64_t slack = capacity_ - least - section.seen;
        if (slack < 0) return false;
        if (slack <= section.slack) {
          section.slack = slack;
          section.slack_from = least;
        }
      }
    }
    return true;
  }

  // Raises the least offsets of buffers that cannot lie below the others of a section. Returns
  // whether any offset was raised.
  bool LiftAboveOthers(const Part& part) {
    bool lifted = false;
    for (int32_t x : part) {
      int64_t least = least_[x];
      for (int32_t s = items_[x].first; s <= items_[x].last; ++s) {
        const Section& section = sections_[s];
        if (least_[x] >= section.lifted_from) least = std::max(least, section.lifted_to);
      }
      if (least == least_[x]) continue;
      least_[x] = least;
      supported_[x] = false;
      lifted = true;
    }
    return lifted;
  }

  // The key of a part: whether a part can be placed depends only on its buffers and their floors.
  Key KeyOf(const Part& part) {
    Key key;
    for (int32_t x : part) key.Add(x, 0);
    uint64_t number = items_.size() + items_[part.front()].first;
    for (const Section& section : SectionsOf(part)) key.Add(number++, section.floor);
    return key;
  }

  // The buffers that can be the lowest of the part. Such a buffer is on top of a placed buffer, and
  // starts below the lowest end of any other buffer, because otherwise that other buffer could be
  // slid under it. Lower offsets come first; the search relies on this order.
  std::vector<Choice> Choices(const Part& part) const {
    int64_t lowest_end = kNever;
    for (int32_t x : part) lowest_end = std::min(lowest_end, least_[x] + items_[x].size);
    std::vector<Choice> choices;
    for (int32_t x : part) {
      if (supported_[x] && least_[x] < lowest_end) choices.push_back({least_[x], RankOf(x), x});
    }
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
      return std::tie(a.offset, b.rank, a.buffer) < std::tie(b.offset, a.rank, b.buffer);
    });
    return choices;
  }

  std::array<int64_t, 3> RankOf(int32_t x) const {
    const Item& item = items_[x];
    std::array<int64_t, 3> rank{};
    for (size_t i = 0; i < rank.size(); ++i) {
      switch (ranking_[i]) {
        case By::kLoad:
          rank[i] = load_[x];
          break;
        case By::kArea:
          rank[i] = item.size * item.duration;
          break;
        case By::kDuration:
          rank[i] = item.duration;
          break;
        case By::kSize:
          rank[i] = item.size;
          break;
      }
    }
    return rank;
  }

  int64_t capacity_;
  std::vector<Item> items_;
  std::vector<Section> sections_;
  Ranking ranking_ = kRankings[0];

  // By buffer. support_: the highest end of a placed buffer that is alive at the same time.
  // barred_below_: all offsets below this one have been tried. least_: the least offset that is
  // left. supported_: whether a placed buffer or offset zero is directly below least_.
  std::vector<int64_t> support_, barred_below_, least_;
  std::vector<bool> supported_;
  std::vector<int64_t> load_;  // by buffer: the greatest load of its sections
  std::vector<int64_t> offsets_;
  Part by_least_;
  Changes supports_, bars_, loads_;  // changes on the path to the current node of the search
  std::unordered_set<Key, KeyHash> failed_;
  int64_t nodes_ = 0, nodes_left_ = 0, work_left_;
};

}  // namespace

ExactPlacement PlaceWithin(std::span<const Interval> intervals, int64_t capacity, int64_t work) {
  ExactPlacement result;
  if (static_cast<int64_t>(intervals.size()) > kMostExactBuffers) return result;
  ExactSearch search(intervals, capacity, work);
  result.verdict = search.Run();
  if (result.verdict == Verdict::kPlaced) result.offsets = std::move(search.offsets());
  result.nodes = search.nodes();
  result.work = work - search.work_left();
  return result;
}

}  // namespace plimsoll::memory
