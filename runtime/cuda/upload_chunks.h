// The sizes of the pinned memory through which a GPU's inputs and other small transfers are
// uploaded. Plans made without a GPU use them, too.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::runtime {

// The pinned memory has this number of chunks. A chunk can hold the tokens of most batches.
inline constexpr int64_t kUploadChunks = 16;
inline constexpr int64_t kLeastUploadChunk = 512 << 10, kMostUploadChunk = 32 << 20;  // bytes

// The size of a chunk, between a minimum and a maximum. All chunks but one have room for `bytes`,
// so that the host can pass in the next batch while the device still reads the previous batch.
inline int64_t UploadChunkBytes(int64_t bytes) {
  return std::clamp(bytes / (kUploadChunks - 1), kLeastUploadChunk, kMostUploadChunk) / 256 * 256;
}

}  // namespace plimsoll::runtime
