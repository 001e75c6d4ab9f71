// An allocator that decides while a program runs, as deep-learning frameworks have one for GPU
// memory: to compare the planned arena with.
//
// It follows the documented behaviour of PyTorch's CUDA caching allocator:
// - Sizes are rounded up to 512 bytes.
// - Requests up to 1 MiB are cut from segments of 2 MiB, larger ones below 10 MiB from segments of
//   20 MiB, and larger ones still get a segment of their own size, rounded up to 2 MiB. The first
//   kind shares no segment with the others.
// - A request takes the smallest free block that holds it (best fit). What is left of the block
//   becomes a free block again if it is at least 512 bytes (small requests) or more than 1 MiB
//   (others); otherwise it is lost until the block is freed.
// - A freed block merges with its free neighbours in the segment. Segments are kept.
// - EmptyCache() returns the segments in which no block is in use. It is called also when the
//   source refuses a segment, before the request is given up.
// - Preallocate() takes one large segment first, which serves requests of every size with the least
//   rounding; what doesn't fit there grows as above. (So TensorFlow's allocator begins.)
//
// Ties between equal blocks are decided by the age of the segment and the place in it, never by
// addresses, so that simulated and real memory behave alike. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/segments.h"

namespace plimsoll::runtime {

struct CachingStats {
  // Bytes asked for; bytes of the blocks handed out for them; bytes of all segments.
  int64_t requested = 0, allocated = 0, reserved = 0;
  int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0;
  int64_t allocations = 0;        // requests so far
  int64_t segments = 0;           // now
  int64_t segments_reserved = 0;  // so far
  int64_t segments_returned = 0;  // so far
  int64_t retries = 0;            // requests for which the cache had to be emptied first

  // What is reserved beyond what is in use, each at its peak.
  double fragmentation() const;
  bool operator==(const CachingStats&) const = default;
};

class CachingAllocator {
 public:
  static constexpr int64_t kRounding = 512;
  static constexpr int64_t kSmallRequest = int64_t{1} << 20;
  static constexpr int64_t kSmallSegment = int64_t{2} << 20;
  static constexpr int64_t kMediumSegment = int64_t{20} << 20;
  static constexpr int64_t kLargeRequest = int64_t{10} << 20;
  static constexpr int64_t kSegmentRounding = int64_t{2} << 20;

  // `source` must outlive the allocator, which returns all its segments at its end. `name` stands
  // in messages: "memory.allocator: caching".
  explicit CachingAllocator(SegmentSource& source, std::string name = "caching allocator");
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // One segment of that many bytes, rounded up to 2 MiB. UserError when the source refuses.
  void Preallocate(int64_t bytes);

  // The address of `bytes` ≥ 0 that nobody else has, 512-byte aligned. UserError, with the figures
  // of the moment, when the source refuses a segment for them.
  uintptr_t Allocate(int64_t bytes);
  // InternalError when Allocate() did not give that address, or it is free already.
  void Free(uintptr_t address);
  void EmptyCache();

  const CachingStats& stats() const { return stats_; }

  // A snapshot for tests and reports: all blocks in the order of segments and addresses.
  struct BlockInfo {
    int64_t segment = 0;  // number, in the order of reservation
    int64_t offset = 0;   // in the segment
    int64_t bytes = 0;
    int64_t requested = 0;  // 0 when free
    bool in_use = false;
    bool operator==(const BlockInfo&) const = default;
  };
  std::vector<BlockInfo> Blocks() const;

 private:
  enum class Pool { kSmall, kLarge, kPreallocated };

  struct Block {
    uintptr_t address = 0;
    int64_t bytes = 0;
    int64_t requested = 0;
    int64_t segment = 0;
    Pool pool = Pool::kSmall;
    bool in_use = false;
    Block* previous = nullptr;  // neighbours in the segment
    Block* next = nullptr;
  };
  struct BestFit {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, BestFit>;

  Block* Add(const Block& block);
  Block* FindFree(Pool pool, int64_t bytes);
  Block* Grow(Pool pool, int64_t segment_bytes);  // nullptr: refused even after EmptyCache()
  void Split(Block* block, int64_t bytes);
  Block* MergeFree(Block* first, Block* second);
  FreeBlocks& free(Pool pool) { return free_[static_cast<size_t>(pool)]; }

  SegmentSource& source_;
  std::string name_;
  std::unordered_map<uintptr_t, std::unique_ptr<Block>> blocks_;  // by address, free ones too
  FreeBlocks free_[3];                                            // by pool
  CachingStats stats_;
};

}  // namespace plimsoll::runtime
