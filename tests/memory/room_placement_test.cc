#include "memory/room_placement.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace plimsoll::memory {
namespace {

TEST(RoomPlacement, UsesTheTimesInWhichFixedBuffersAreNotAlive) {
  // Of two kept tensors one ends at node 2, the other at node 5.
  const std::vector<ByteRange> room = {{128, 384}};
  const std::vector<FixedBuffer> fixed = {{{128, 0, 5}, 128}, {{128, 0, 2}, 256}};
  const std::vector<Interval> buffers = {{100, 1, 3}, {120, 3, 6}, {64, 6, 6}};
  EXPECT_EQ(PlaceInRoom(buffers, room, fixed, 64), (std::vector<int64_t>{-1, 256, -1}));
}

TEST(RoomPlacement, LowersTheMostBytesAlive) {
  // The peak is at nodes 4 and 5, where 64 bytes are free: the larger buffer is taken that fits.
  const std::vector<ByteRange> room = {{0, 64}};
  const std::vector<Interval> buffers = {{64, 0, 2}, {128, 4, 5}, {64, 4, 4}, {32, 5, 6}};
  EXPECT_EQ(PlaceInRoom(buffers, room, {}, 64), (std::vector<int64_t>{-1, -1, 0, 0}));
}

TEST(RoomPlacement, HasNothingToDo) {
  const std::vector<Interval> buffers = {{64, 0, 2}};
  EXPECT_EQ(PlaceInRoom(buffers, {}, {}, 64), (std::vector<int64_t>{-1}));
  const std::vector<ByteRange> room = {{0, 64}};
  EXPECT_TRUE(PlaceInRoom({}, room, {}, 64).empty());
}

TEST(RoomPlacement, OverlapsNothing) {
  std::mt19937 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int64_t taken = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<FixedBuffer> all;
    int64_t end = 64 * below(4);
    const int64_t begin = end;
    for (int64_t i = below(6); i >= 0; --i) {
      const int64_t size = 1 + below(400);
      const auto birth = static_cast<int32_t>(below(10));
      all.push_back({{size, birth, birth + static_cast<int32_t>(below(10))}, end});
      end += (size + 63) / 64 * 64;
    }
    std::vector<Interval> buffers;
    for (int64_t i = below(20); i >= 0; --i) {
      const auto birth = static_cast<int32_t>(below(18));
      buffers.push_back({1 + below(300), birth, birth + static_cast<int32_t>(below(4))});
    }
    const std::vector<ByteRange> room = {{begin, end}};
    const std::vector<int64_t> offsets = PlaceInRoom(buffers, room, all, 64);
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (offsets[i] < 0) continue;
      ++taken;
      EXPECT_EQ(offsets[i] % 64, 0);
      EXPECT_GE(offsets[i], begin);
      EXPECT_LE(offsets[i] + buffers[i].size, end);
      for (const FixedBuffer& other : all) {
        EXPECT_TRUE(!other.interval.Meets(buffers[i]) ||
                    other.offset + other.interval.size <= offsets[i] ||
                    offsets[i] + buffers[i].size <= other.offset);
      }
      all.push_back({buffers[i], offsets[i]});
    }
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace plimsoll::memory
