// The pinned memory through which a GPU's inputs and other small transfers are uploaded; also for
// plans made without a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::runtime {

// A chunk holds the tokens of most batches.
inline constexpr int64_t kUploadChunks = 16;
inline constexpr int64_t kLeastUploadChunk = 512 << 10, kMostUploadChunk = 32 << 20;  // bytes

// With room for `bytes` in all chunks but one, so that the host can hand in the next batch while
// the device still reads the last; within a least and a most.
inline int64_t UploadChunkBytes(int64_t bytes) {
  return std::clamp(bytes / (kUploadChunks - 1), kLeastUploadChunk, kMostUploadChunk) / 256 * 256;
}

}  // namespace plimsoll::runtime
