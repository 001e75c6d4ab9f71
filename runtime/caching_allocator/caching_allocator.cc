#include "runtime/caching_allocator/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::runtime {

constexpr char kName[] = "memory.allocator: caching";

bool CachingAllocator::BestFit::operator()(const Block* a, const Block* b) const {
  return std::tie(a->bytes, a->segment, a->address) < std::tie(b->bytes, b->segment, b->address);
}

CachingAllocator::~CachingAllocator() {
  for (const auto& [address, first] : blocks_) {
    if (first->previous != nullptr) continue;
    int64_t bytes = 0;
    for (const Block* block = first.get(); block != nullptr; block = block->next) {
      bytes += block->bytes;
    }
    source_.Return(address, bytes);
  }
}

void CachingAllocator::Preallocate(int64_t bytes) {
  if (bytes <= 0) throw InternalError(fmt::format("{}: {} bytes preallocated", kName, bytes));
  if (Grow(Pool::kPreallocated, RoundUp(bytes, kSegmentRounding)) == nullptr) {
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
  Block* block = FindFree(Pool::kPreallocated, rounded);
  if (block == nullptr) block = FindFree(pool, rounded);
  if (block == nullptr) {
    int64_t segment = RoundUp(rounded, kSegmentRounding);
    if (pool == Pool::kSmall) {
      segment = kSmallSegment;
    } else if (rounded < kLargeRequest) {
      segment = kMediumSegment;
    }
    block = Grow(pool, segment);
    if (block == nullptr) {
      throw UserError(
          fmt::format("{}: no segment of {} to be had for a tensor of {}: {} are in use, {} "
                      "reserved; a smaller train.micro_batch needs less, and so does "
                      "memory.allocator: planned",
                      kName, FormatBytes(segment), FormatBytes(bytes),
                      FormatBytes(stats_.allocated), FormatBytes(stats_.reserved)),
          ExitCode::kInternal);
    }
  }
  free(block->pool).erase(block);
  Split(block, rounded);
  block->in_use = true;
  block->requested = bytes;

  stats_.requested += bytes;
  stats_.allocated += block->bytes;
  stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return block->address;
}

void CachingAllocator::Free(uintptr_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second->in_use) {
    throw InternalError(fmt::format("{}: {:#x} is freed but not in use", kName, address));
  }
  Block* block = found->second.get();
  stats_.requested -= block->requested;
  stats_.allocated -= block->bytes;
  block->in_use = false;
  block->requested = 0;
  if (block->previous != nullptr && !block->previous->in_use) {
    free(block->pool).erase(block->previous);
    block = MergeFree(block->previous, block);
  }
  if (block->next != nullptr && !block->next->in_use) {
    free(block->pool).erase(block->next);
    block = MergeFree(block, block->next);
  }
  free(block->pool).insert(block);
}

void CachingAllocator::EmptyCache() {
  for (FreeBlocks& blocks : free_) {
    for (auto at = blocks.begin(); at != blocks.end();) {
      const Block* block = *at;
      if (block->previous != nullptr || block->next != nullptr) {
        ++at;
        continue;
      }
      source_.Return(block->address, block->bytes);
      stats_.reserved -= block->bytes;
      --stats_.segments;
      ++stats_.segments_returned;
      at = blocks.erase(at);
      blocks_.erase(block->address);
    }
  }
}

std::vector<CachingAllocator::BlockInfo> CachingAllocator::Blocks() const {
  std::vector<const Block*> first(static_cast<size_t>(stats_.segments_reserved), nullptr);
  for (const auto& [address, block] : blocks_) {
    if (block->previous == nullptr) first[static_cast<size_t>(block->segment)] = block.get();
  }
  std::vector<BlockInfo> result;
  for (const Block* start : first) {
    for (const Block* block = start; block != nullptr; block = block->next) {
      result.push_back({block->segment, static_cast<int64_t>(block->address - start->address),
                        block->bytes, block->requested, block->in_use});
    }
  }
  return result;
}

CachingAllocator::Block* CachingAllocator::Add(const Block& block) {
  return blocks_.emplace(block.address, std::make_unique<Block>(block)).first->second.get();
}

CachingAllocator::Block* CachingAllocator::FindFree(Pool pool, int64_t bytes) {
  Block wanted;
  wanted.bytes = bytes;
  wanted.segment = -1;  // sorts before all others of this size
  const auto found = free(pool).lower_bound(&wanted);
  return found == free(pool).end() ? nullptr : *found;
}

CachingAllocator::Block* CachingAllocator::Grow(Pool pool, int64_t segment_bytes) {
  uintptr_t address = source_.Reserve(segment_bytes);
  if (address == 0) {
    ++stats_.retries;
    EmptyCache();
    address = source_.Reserve(segment_bytes);
    if (address == 0) return nullptr;
  }
  Block block;
  block.address = address;
  block.bytes = segment_bytes;
  block.segment = stats_.segments_reserved;
  block.pool = pool;
  ++stats_.segments;
  ++stats_.segments_reserved;
  stats_.reserved += segment_bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  Block* added = Add(block);
  free(pool).insert(added);
  return added;
}

void CachingAllocator::Split(Block* block, int64_t bytes) {
  const int64_t rest = block->bytes - bytes;
  const bool worth_it = block->pool == Pool::kLarge ? rest > kSmallRequest : rest >= kRounding;
  if (!worth_it) return;
  Block tail = *block;
  tail.address += static_cast<uintptr_t>(bytes);
  tail.bytes = rest;
  tail.previous = block;
  block->bytes = bytes;
  Block* added = Add(tail);
  if (added->next != nullptr) added->next->previous = added;
  block->next = added;
  free(block->pool).insert(added);
}

CachingAllocator::Block* CachingAllocator::MergeFree(Block* first, Block* second) {
  first->bytes += second->bytes;
  first->next = second->next;
  if (first->next != nullptr) first->next->previous = first;
  blocks_.erase(second->address);
  return first;
}

}  // namespace plimsoll::runtime
