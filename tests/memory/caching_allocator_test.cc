#include "runtime/caching_allocator/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/error.h"
#include "runtime/caching_allocator/simulated_segments.h"
#include "runtime/device.h"
#include "tests/support/expect_error.h"

namespace plimsoll::runtime {
namespace {

using BlockInfo = CachingAllocator::BlockInfo;

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// An allocator on addresses without memory.
struct Simulated {
  explicit Simulated(int64_t limit = INT64_MAX) : segments(limit) {}
  SimulatedSegments segments;
  CachingAllocator allocator{segments};
  const AllocatorStats& stats() const { return allocator.stats(); }
};

TEST(CachingAllocator, BlocksAndSegmentsBySize) {
  const struct {
    int64_t asked, block, segment;
  } cases[] = {
      {0, 512, 2 * kMiB},
      {1, 512, 2 * kMiB},
      {512, 512, 2 * kMiB},
      {513, 1024, 2 * kMiB},
      {1000, 1024, 2 * kMiB},
      {kMiB - 1, kMiB, 2 * kMiB},
      {kMiB, kMiB, 2 * kMiB},
      {kMiB + 1, kMiB + 512, 20 * kMiB},
      {10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
      {10 * kMiB, 10 * kMiB, 10 * kMiB},
      {10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB},
      {33 * kMiB, 34 * kMiB, 34 * kMiB},
  };
  for (const auto& [asked, block, segment] : cases) {
    SCOPED_TRACE(asked);
    Simulated s;
    s.allocator.Allocate(asked);
    EXPECT_EQ(s.stats().requested, asked);
    EXPECT_EQ(s.stats().allocated, block);
    EXPECT_EQ(s.stats().reserved, segment);
    EXPECT_EQ(s.segments.reserved_bytes(), segment);
  }
}

// The rest of a block is wasted if it is too small to be useful: up to 1 MiB for large requests,
// never for small ones.
TEST(CachingAllocator, SplitsWhatIsWorthIt) {
  Simulated s;
  s.allocator.Allocate(33 * kMiB);  // a segment of 34 MiB: 1 MiB is wasted
  EXPECT_EQ(s.stats().allocated, 34 * kMiB);
  s.allocator.Allocate(33 * kMiB - 512);
  EXPECT_EQ(s.stats().allocated, 34 * kMiB + 33 * kMiB - 512);
  s.allocator.Allocate(kMiB);
  s.allocator.Allocate(kMiB - 512);  // leaves 512 bytes of the segment
  EXPECT_EQ(s.allocator.Blocks(), (std::vector<BlockInfo>{
                                      {0, 0, 34 * kMiB, 33 * kMiB, true},
                                      {1, 0, 33 * kMiB - 512, 33 * kMiB - 512, true},
                                      {1, 33 * kMiB - 512, kMiB + 512, 0, false},
                                      {2, 0, kMiB, kMiB, true},
                                      {2, kMiB, kMiB - 512, kMiB - 512, true},
                                      {2, 2 * kMiB - 512, 512, 0, false},
                                  }));
}

TEST(CachingAllocator, SmallRequestsStayOutOfLargeSegments) {
  Simulated s;
  s.allocator.Free(s.allocator.Allocate(5 * kMiB));
  s.allocator.Allocate(kMiB);
  EXPECT_EQ(s.stats().segments, 2);
  s.allocator.Allocate(kMiB + 1);  // the large one does serve this
  EXPECT_EQ(s.stats().segments, 2);
}

TEST(CachingAllocator, TakesTheSmallestBlockThatFits) {
  Simulated s;
  const uintptr_t a = s.allocator.Allocate(30 * kMiB);
  const uintptr_t b = s.allocator.Allocate(14 * kMiB);
  const uintptr_t c = s.allocator.Allocate(20 * kMiB);
  for (uintptr_t address : {a, b, c}) s.allocator.Free(address);
  EXPECT_EQ(s.allocator.Allocate(15 * kMiB), c);
  EXPECT_EQ(s.allocator.Allocate(17 * kMiB), a);
  EXPECT_EQ(s.allocator.Allocate(14 * kMiB), b);
  EXPECT_EQ(s.stats().segments_reserved, 3);
}

TEST(CachingAllocator, EqualBlocksTheOldestSegmentFirst) {
  Simulated s;
  const uintptr_t a = s.allocator.Allocate(12 * kMiB);
  const uintptr_t b = s.allocator.Allocate(12 * kMiB);
  s.allocator.Free(b);
  s.allocator.Free(a);
  EXPECT_EQ(s.allocator.Allocate(12 * kMiB), a);
}

TEST(CachingAllocator, FreedNeighboursMerge) {
  for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}}) {
    Simulated s;
    std::vector<uintptr_t> parts;
    for (int i = 0; i < 3; ++i) parts.push_back(s.allocator.Allocate(4 * kMiB));
    EXPECT_EQ(s.allocator.Blocks().size(), 4u);
    for (int part : order) s.allocator.Free(parts[part]);
    EXPECT_EQ(s.allocator.Blocks(), (std::vector<BlockInfo>{{0, 0, 20 * kMiB, 0, false}}));
    EXPECT_EQ(s.stats().allocated, 0);
    EXPECT_EQ(s.stats().reserved, 20 * kMiB);  // kept
  }
}

// Computed by hand: 8 + 8 MiB fill a segment of 20 except for 4; when the first is freed, 12 MiB
// are free in the segment, but in pieces of 8 and 4, so 9 MiB need another segment.
TEST(CachingAllocator, Fragments) {
  Simulated s;
  const uintptr_t first = s.allocator.Allocate(8 * kMiB);
  s.allocator.Allocate(8 * kMiB);
  EXPECT_DOUBLE_EQ(s.stats().fragmentation(), 20.0 / 16 - 1);
  s.allocator.Free(first);
  s.allocator.Allocate(9 * kMiB);
  EXPECT_EQ(s.stats().reserved, 40 * kMiB);
  EXPECT_EQ(s.stats().allocated, 17 * kMiB);
  EXPECT_DOUBLE_EQ(s.stats().fragmentation(), 40.0 / 17 - 1);
}

TEST(CachingAllocator, EmptyCacheReturnsWhollyFreeSegments) {
  Simulated s;
  const uintptr_t a = s.allocator.Allocate(8 * kMiB);
  const uintptr_t b = s.allocator.Allocate(8 * kMiB);
  const uintptr_t c = s.allocator.Allocate(50 * kMiB);
  s.allocator.Free(a);
  s.allocator.Free(c);
  s.allocator.EmptyCache();
  EXPECT_EQ(s.stats().reserved, 20 * kMiB);  // b is in it
  EXPECT_EQ(s.stats().peak_reserved, 70 * kMiB);
  EXPECT_EQ(s.segments.reserved_bytes(), 20 * kMiB);
  EXPECT_EQ(s.stats().segments_returned, 1);
  s.allocator.Free(b);
  s.allocator.EmptyCache();
  EXPECT_EQ(s.segments.reserved_bytes(), 0);
  EXPECT_EQ(s.stats().segments, 0);
  EXPECT_TRUE(s.allocator.Blocks().empty());
  s.allocator.Allocate(50 * kMiB);  // must be requested again
  EXPECT_EQ(s.stats().segments_reserved, 3);
}

TEST(CachingAllocator, EmptiesItsCacheBeforeItGivesUp) {
  Simulated s(/*limit=*/40 * kMiB);
  s.allocator.Free(s.allocator.Allocate(30 * kMiB));
  s.allocator.Allocate(36 * kMiB);
  EXPECT_EQ(s.stats().retries, 1);
  EXPECT_EQ(s.stats().reserved, 36 * kMiB);
  const std::string message = UserErrorOf([&] { s.allocator.Allocate(5 * kMiB); });
  for (const char* part : {"20.0 MiB", "5.00 MiB", "36.0 MiB are in use", "memory.allocator"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(s.stats().allocated, 36 * kMiB);  // still sound
  s.allocator.Allocate(kMiB);
}

TEST(CachingAllocator, OnePreallocatedSegmentServesAllSizes) {
  Simulated s;
  s.allocator.Preallocate(39 * kMiB);
  EXPECT_EQ(s.stats().reserved, 40 * kMiB);
  const uintptr_t small = s.allocator.Allocate(1);
  s.allocator.Allocate(5 * kMiB);
  s.allocator.Allocate(33 * kMiB + 1);
  EXPECT_EQ(s.stats().segments, 1);
  EXPECT_EQ(s.stats().allocated, 512 + 5 * kMiB + 33 * kMiB + 512);
  s.allocator.Allocate(4 * kMiB);  // no longer fits: grows
  EXPECT_EQ(s.stats().reserved, 60 * kMiB);
  s.allocator.EmptyCache();
  EXPECT_EQ(s.stats().reserved, 60 * kMiB);
  s.allocator.Free(small);

  Simulated limited(10 * kMiB);
  UserErrorOf([&] { limited.allocator.Preallocate(11 * kMiB); });
}

TEST(CachingAllocator, RefusesWhatItNeverGave) {
  Simulated s;
  const uintptr_t a = s.allocator.Allocate(1000);
  ExpectInternalError([&] { s.allocator.Free(a + 512); }, {"not in use"});
  s.allocator.Free(a);
  ExpectInternalError([&] { s.allocator.Free(a); }, {"not in use"});
  ExpectInternalError([&] { s.allocator.Free(0); }, {"not in use"});
  ExpectInternalError([&] { s.allocator.Allocate(-1); }, {"-1 bytes"});
}

int64_t RandomSize(std::mt19937& random) {
  // Log-uniform from bytes to tens of MiB.
  const int bits = static_cast<int>(random() % 26);
  return static_cast<int64_t>((uint64_t{1} << bits) + random() % (uint64_t{1} << bits));
}

// No two live blocks overlap; the statistics equal a naive recount; no two free blocks are
// neighbours; blocks tile their segments.
void CheckSound(const CachingAllocator& allocator, const std::map<uintptr_t, int64_t>& live) {
  uintptr_t end = 0;
  int64_t requested = 0;
  for (const auto& [address, bytes] : live) {
    ASSERT_GE(address, end) << "two live blocks overlap";
    ASSERT_EQ(address % 512, 0u);
    end = address + static_cast<uintptr_t>(bytes);
    requested += bytes;
  }
  const AllocatorStats& stats = allocator.stats();
  int64_t allocated = 0, reserved = 0, segments = 0, asked = 0;
  const BlockInfo* before = nullptr;
  const std::vector<BlockInfo> blocks = allocator.Blocks();
  for (const BlockInfo& block : blocks) {
    const bool first = before == nullptr || before->segment != block.segment;
    segments += first;
    ASSERT_EQ(block.offset, first ? 0 : before->offset + before->bytes);
    ASSERT_FALSE(!first && !before->in_use && !block.in_use) << "free neighbours not merged";
    reserved += block.bytes;
    if (block.in_use) allocated += block.bytes;
    asked += block.requested;
    before = &block;
  }
  ASSERT_EQ(stats.requested, requested);
  ASSERT_EQ(asked, requested);
  ASSERT_EQ(stats.allocated, allocated);
  ASSERT_EQ(stats.reserved, reserved);
  ASSERT_EQ(stats.segments, segments);
  ASSERT_EQ(stats.segments, stats.segments_reserved - stats.segments_returned);
  ASSERT_GE(stats.peak_reserved, stats.reserved);
}

TEST(CachingAllocator, RandomRequestsNeverOverlap) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    SimulatedSegments segments(seed % 3 == 0 ? 256 * kMiB : INT64_MAX);
    {
      CachingAllocator allocator(segments);
      if (seed % 4 == 0) allocator.Preallocate(64 * kMiB);
      std::map<uintptr_t, int64_t> live;
      for (int i = 0; i < 600; ++i) {
        const uint32_t what = random() % 100;
        if (what == 0) {
          allocator.EmptyCache();
        } else if (what < 50 || live.empty()) {
          const int64_t bytes = RandomSize(random);
          try {
            const uintptr_t address = allocator.Allocate(bytes);
            ASSERT_TRUE(live.emplace(address, bytes).second);
          } catch (const UserError&) {
            ASSERT_EQ(seed % 3, 0u) << "refused without a limit";
          }
        } else {
          const auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
          allocator.Free(victim->first);
          live.erase(victim);
        }
        if (i % 10 == 0) CheckSound(allocator, live);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(segments.reserved_bytes(), 0);  // all given back at the end
  }
}

// On real memory: every tensor keeps its contents while others are allocated and freed.
TEST(CachingAllocator, RealMemoryKeepsItsBytes) {
  ThreadPool pool(1);
  const std::unique_ptr<Device> cpu = MakeCpuDevice(pool);
  const std::unique_ptr<SegmentSource> segments = cpu->MakeSegments(graph::Place::kDevice);
  CachingAllocator allocator(*segments);
  std::mt19937 random(1);
  struct Live {
    int64_t bytes;
    int mark;
  };
  std::map<uintptr_t, Live> live;
  auto check = [](uintptr_t address, const Live& l) {
    const auto* data = reinterpret_cast<const unsigned char*>(address);
    return std::all_of(data, data + l.bytes, [&](unsigned char c) { return c == l.mark; });
  };
  for (int i = 0; i < 300; ++i) {
    if (i % 50 == 49) allocator.EmptyCache();
    if (random() % 2 == 0 || live.empty()) {
      const int64_t bytes = RandomSize(random) / 16 + 1;
      const uintptr_t address = allocator.Allocate(bytes);
      const int mark = static_cast<int>(random() % 256);
      std::memset(reinterpret_cast<void*>(address), mark, static_cast<size_t>(bytes));
      live[address] = {bytes, mark};
    } else {
      const auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
      ASSERT_TRUE(check(victim->first, victim->second));
      allocator.Free(victim->first);
      live.erase(victim);
    }
  }
  for (const auto& [address, l] : live) EXPECT_TRUE(check(address, l));
}

}  // namespace
}  // namespace plimsoll::runtime
