#include "runtime/caching_allocator/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::runtime {

constexpr char kName[] = "memory.allocator: caching";

CachingAllocator::~CachingAllocator() {
  uintptr_t start = 0;
  int64_t bytes = 0;
  for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
    if (bytes == 0) start = at->first;
    bytes += at->second.bytes;
    if (Adjoins(at, std::next(at))) continue;
    source_.Return(start, bytes);
    bytes = 0;
  }
}

void CachingAllocator::Preallocate(int64_t bytes) {
  if (bytes <= 0) throw InternalError(fmt::format("{}: {} bytes preallocated", kName, bytes));
  if (!Grow(Pool::kPreallocated, RoundUp(bytes, kSegmentRounding))) {
    throw UserError(
        fmt::format("{}: the system refuses {} at once; free memory, or let it grow "
                    "instead (memory.preallocate: false)",
                    kName, FormatBytes(bytes)));
  }
}

uintptr_t CachingAllocator::Allocate(int64_t bytes) {
  if (bytes < 0) throw InternalError(fmt::format("{}: {} bytes requested", kName, bytes));
  const int64_t rounded = std::max(RoundUp(bytes, kRounding), kRounding);
  const Pool pool = rounded <= kSmallRequest ? Pool::kSmall : Pool::kLarge;
  uintptr_t address = TakeFree(Pool::kPreallocated, rounded);
  if (address == 0) address = TakeFree(pool, rounded);
  if (address == 0) {
    int64_t segment = RoundUp(rounded, kSegmentRounding);
    if (pool == Pool::kSmall) {
      segment = kSmallSegment;
    } else if (rounded < kLargeRequest) {
      segment = kMediumSegment;
    }
    if (!Grow(pool, segment)) {
      throw UserError(
          fmt::format("{}: no segment of {} to be had for a tensor of {}: {} are in use, {} "
                      "reserved; a smaller train.micro_batch needs less, and so does "
                      "memory.allocator: planned",
                      kName, FormatBytes(segment), FormatBytes(bytes),
                      FormatBytes(stats_.allocated), FormatBytes(stats_.reserved)),
          ExitCode::kInternal);
    }
    address = TakeFree(pool, rounded);
  }
  Block& block = blocks_.at(address);
  const int64_t rest = block.bytes - rounded;
  if (block.pool == Pool::kLarge ? rest > kSmallRequest : rest >= kRounding) {
    AddFree(address + static_cast<uintptr_t>(rounded),
            {.bytes = rest, .segment = block.segment, .pool = block.pool});
    block.bytes = rounded;
  }
  block.in_use = true;
  block.requested = bytes;

  stats_.requested += bytes;
  stats_.allocated += block.bytes;
  stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return address;
}

void CachingAllocator::Free(uintptr_t address) {
  auto at = blocks_.find(address);
  if (at == blocks_.end() || !at->second.in_use) {
    throw InternalError(fmt::format("{}: {:#x} is freed but not in use", kName, address));
  }
  stats_.requested -= at->second.requested;
  stats_.allocated -= at->second.bytes;
  at->second.in_use = false;
  at->second.requested = 0;
  // Merges free neighbours into one block.
  if (const auto next = std::next(at); Adjoins(at, next) && !next->second.in_use) {
    free(next->second.pool).erase(KeyOf(*next));
    at->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (at != blocks_.begin()) {
    const auto previous = std::prev(at);
    if (Adjoins(previous, at) && !previous->second.in_use) {
      free(previous->second.pool).erase(KeyOf(*previous));
      previous->second.bytes += at->second.bytes;
      blocks_.erase(std::exchange(at, previous));
    }
  }
  free(at->second.pool).insert(KeyOf(*at));
}

void CachingAllocator::EmptyCache() {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const auto& [address, block] = *at;
    const bool whole =
        !Adjoins(at, std::next(at)) && (at == blocks_.begin() || !Adjoins(std::prev(at), at));
    if (block.in_use || !whole) {
      ++at;
      continue;
    }
    source_.Return(address, block.bytes);
    stats_.reserved -= block.bytes;
    --stats_.segments;
    ++stats_.segments_returned;
    free(block.pool).erase(KeyOf(*at));
    at = blocks_.erase(at);
  }
}

std::vector<CachingAllocator::BlockInfo> CachingAllocator::Blocks() const {
  std::vector<BlockInfo> result;
  for (const auto& [address, block] : blocks_) {
    const bool first = result.empty() || result.back().segment != block.segment;
    result.push_back({block.segment, first ? 0 : result.back().offset + result.back().bytes,
                      block.bytes, block.requested, block.in_use});
  }
  std::ranges::stable_sort(result, {}, &BlockInfo::segment);
  return result;
}

bool CachingAllocator::Adjoins(BlockMap::const_iterator a, BlockMap::const_iterator b) const {
  return b != blocks_.end() && a->second.segment == b->second.segment;
}

void CachingAllocator::AddFree(uintptr_t address, const Block& block) {
  free(block.pool).insert(KeyOf(*blocks_.emplace(address, block).first));
}

uintptr_t CachingAllocator::TakeFree(Pool pool, int64_t bytes) {
  const auto found = free(pool).lower_bound({bytes, -1, 0});
  if (found == free(pool).end()) return 0;
  const uintptr_t address = std::get<2>(*found);
  free(pool).erase(found);
  return address;
}

bool CachingAllocator::Grow(Pool pool, int64_t segment_bytes) {
  uintptr_t address = source_.Reserve(segment_bytes);
  if (address == 0) {
    ++stats_.retries;
    EmptyCache();
    address = source_.Reserve(segment_bytes);
    if (address == 0) return false;
  }
  AddFree(address, {.bytes = segment_bytes, .segment = stats_.segments_reserved, .pool = pool});
  ++stats_.segments;
  ++stats_.segments_reserved;
  stats_.reserved += segment_bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return true;
}

}  // namespace plimsoll::runtime
