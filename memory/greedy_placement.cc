#include "memory/greedy_placement.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace plimsoll::memory {
namespace {

// The buffers that are placed, by offset, as the search for gaps reads them: most of its time goes
// into finding those that are alive at the same time as another one.
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
  // kLanes more than there are buffers
  std::vector<int32_t> birth_ = std::vector<int32_t>(kLanes, 0);
  std::vector<int32_t> death_ = std::vector<int32_t>(kLanes, kNever);
};

constexpr int64_t kWorkOfAGap = 16;  // apart from its neighbours

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

}  // namespace

int64_t PlaceInOrder(std::span<const Interval> sized, std::span<const int32_t> order, Fit fit,
                     std::vector<int64_t>& offsets, int64_t& work) {
  PlacedBuffers placed;
  int64_t extent = 0;
  for (int32_t index : order) {
    const Interval& buffer = sized[index];
    const int64_t offset = FindGap(placed, buffer, fit, work);
    offsets[index] = offset;
    extent = std::max(extent, offset + buffer.size);
    placed.Insert(offset, buffer);
  }
  return extent;
}

}  // namespace plimsoll::memory
