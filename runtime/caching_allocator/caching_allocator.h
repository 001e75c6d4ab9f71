// An allocator that decides while a program runs, like those of deep-learning frameworks for GPU
// memory. It is what the planned arena is compared with.
//
// It follows the documented behaviour of PyTorch's CUDA caching allocator:
// - Sizes are rounded up to 512 bytes.
// - Requests up to 1 MiB are cut from segments of 2 MiB, larger ones below 10 MiB from segments of
//   20 MiB, and larger ones still get a segment of their own size, rounded up to 2 MiB. The first
//   kind shares no segment with the others.
// - A request takes the smallest free block that holds it (best fit). The rest of the block
//   becomes a free block again if it is at least 512 bytes (small requests) or more than 1 MiB
//   (others); otherwise it is lost until the block is freed.
// - A freed block merges with its free neighbours in the segment. Segments are kept.
// - EmptyCache() returns the segments in which no block is in use. It is also called when the
//   source refuses a segment, before the request fails.
// - Preallocate() takes one large segment first, which serves requests of every size with the least
//   rounding; requests that don't fit this segment go to new segments as above. (TensorFlow's
//   allocator begins like this.)
//
// Ties between equal blocks are decided by the age of the segment and the position in it, never by
// addresses, so that simulated and real memory behave alike. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "runtime/allocator_stats.h"
#include "runtime/segments.h"

namespace plimsoll::runtime {

class CachingAllocator {
 public:
  static constexpr int64_t kRounding = 512;
  static constexpr int64_t kSmallRequest = int64_t{1} << 20;
  static constexpr int64_t kSmallSegment = int64_t{2} << 20;
  static constexpr int64_t kMediumSegment = int64_t{20} << 20;
  static constexpr int64_t kLargeRequest = int64_t{10} << 20;
  static constexpr int64_t kSegmentRounding = int64_t{2} << 20;

  // `source` must outlive the allocator, whose destructor returns all segments.
  explicit CachingAllocator(SegmentSource& source) : source_(source) {}
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Reserves one segment of `bytes`, rounded up to 2 MiB. Throws a UserError if the source refuses.
  void Preallocate(int64_t bytes);

  // Returns the 512-byte-aligned address of a new block of `bytes` ≥ 0. Throws a UserError with the
  // current statistics if the source refuses a segment for it.
  uintptr_t Allocate(int64_t bytes);
  // Throws InternalError if Allocate() did not return this address, or if it is already free.
  void Free(uintptr_t address);
  void EmptyCache();

  const AllocatorStats& stats() const { return stats_; }

  // A snapshot of all blocks for tests and reports, in the order of segments and addresses.
  struct BlockInfo {
    int64_t segment = 0;  // number of the segment, in the order of reservation
    int64_t offset = 0;   // offset in the segment
    int64_t bytes = 0;
    int64_t requested = 0;  // 0 if the block is free
    bool in_use = false;
    bool operator==(const BlockInfo&) const = default;
  };
  std::vector<BlockInfo> Blocks() const;

 private:
  enum class Pool { kSmall, kLarge, kPreallocated };

  struct Block {
    int64_t bytes = 0;
    int64_t requested = 0;
    int64_t segment = 0;
    Pool pool = Pool::kSmall;
    bool in_use = false;
  };
  // All blocks by address. Blocks of a segment are neighbours.
  using BlockMap = std::map<uintptr_t, Block>;
  // Free blocks as (bytes, segment, address): the first block that is large enough fits best.
  using FreeBlocks = std::set<std::tuple<int64_t, int64_t, uintptr_t>>;

  static FreeBlocks::value_type KeyOf(const BlockMap::value_type& block) {
    return {block.second.bytes, block.second.segment, block.first};
  }
  FreeBlocks& free(Pool pool) { return free_[static_cast<size_t>(pool)]; }
  // Whether both blocks are in one segment.
  bool Adjoins(BlockMap::const_iterator a, BlockMap::const_iterator b) const;
  void AddFree(uintptr_t address, const Block& block);
  uintptr_t TakeFree(Pool pool, int64_t bytes);  // returns 0 if no block fits
  // returns false if the source refuses the segment even after EmptyCache()
  bool Grow(Pool pool, int64_t segment_bytes);

  SegmentSource& source_;
  BlockMap blocks_;
  FreeBlocks free_[3];  // free blocks of each pool
  AllocatorStats stats_;
};

}  // namespace plimsoll::runtime
