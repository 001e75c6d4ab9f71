#include "memory/room_placement.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "base/bytes.h"

namespace plimsoll::memory {
namespace {

constexpr int64_t kLeftOut = -1;

class RoomPlacer {
 public:
  RoomPlacer(std::span<const Interval> buffers, std::span<const ByteRange> room,
             std::vector<FixedBuffer> fixed, int64_t alignment)
      : buffers_(buffers),
        room_(room),
        fixed_(std::move(fixed)),
        alignment_(alignment),
        offsets_(buffers.size(), kLeftOut) {
    std::ranges::sort(fixed_, {}, &FixedBuffer::offset);
    int32_t last = 0;
    for (const Interval& buffer : buffers) last = std::max(last, buffer.death);
    alive_.assign(static_cast<size_t>(last) + 1, 0);
    for (const Interval& buffer : buffers) Count(buffer, SizeOf(buffer));
  }

  std::vector<int64_t> Run() {
    while (TakeOneAt(static_cast<int32_t>(std::ranges::max_element(alive_) - alive_.begin()))) {
    }
    return std::move(offsets_);
  }

 private:
  int64_t SizeOf(const Interval& buffer) const { return RoundUp(buffer.size, alignment_); }

  void Count(const Interval& buffer, int64_t bytes) {
    for (int32_t t = buffer.birth; t <= buffer.death; ++t) alive_[static_cast<size_t>(t)] += bytes;
  }

  // Places the largest buffer that is alive at `time` and fits.
  bool TakeOneAt(int32_t time) {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const Interval& buffer = buffers_[i];
      const bool alive = buffer.birth <= time && time <= buffer.death;
      if (alive && offsets_[i] == kLeftOut && buffer.size > 0) candidates.push_back(i);
    }
    std::ranges::stable_sort(candidates, std::greater(),
                             [&](size_t i) { return buffers_[i].size; });
    for (const size_t i : candidates) {
      const int64_t offset = SmallestGap(buffers_[i]);
      if (offset == kLeftOut) continue;
      offsets_[i] = offset;
      const auto at = std::ranges::upper_bound(fixed_, offset, {}, &FixedBuffer::offset);
      fixed_.insert(at, {buffers_[i], offset});
      Count(buffers_[i], -SizeOf(buffers_[i]));
      return true;
    }
    return false;
  }

  // The start of the smallest gap that can hold the buffer for its lifetime.
  int64_t SmallestGap(const Interval& buffer) const {
    int64_t best = kLeftOut, smallest = std::numeric_limits<int64_t>::max();
    for (const ByteRange& range : room_) {
      int64_t begin = RoundUp(range.begin, alignment_);
      const auto gap_up_to = [&](int64_t end) {
        if (end - begin < SizeOf(buffer) || end - begin >= smallest) return;
        best = begin;
        smallest = end - begin;
      };
      for (const FixedBuffer& other : fixed_) {
        const int64_t end = other.offset + SizeOf(other.interval);
        if (end <= range.begin || other.offset >= range.end) continue;
        if (!other.interval.Meets(buffer)) continue;
        gap_up_to(other.offset);
        begin = std::max(begin, end);
      }
      gap_up_to(range.end);
    }
    return best;
  }

  std::span<const Interval> buffers_;
  std::span<const ByteRange> room_;
  std::vector<FixedBuffer> fixed_;  // fixed buffers, and the buffers placed so far, by offset
  int64_t alignment_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> alive_;  // by time: bytes of buffers that are left out
};

}  // namespace

std::vector<int64_t> PlaceInRoom(std::span<const Interval> buffers, std::span<const ByteRange> room,
                                 std::vector<FixedBuffer> fixed, int64_t alignment) {
  if (buffers.empty() || room.empty()) return std::vector<int64_t>(buffers.size(), kLeftOut);
  return RoomPlacer(buffers, room, std::move(fixed), alignment).Run();
}

}  // namespace plimsoll::memory
