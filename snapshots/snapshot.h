// A complete snapshot, for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/staging.h"
#include "base/thread_pool.h"
#include "snapshots/manifest.h"
#include "snapshots/shard.h"

namespace plimsoll::snapshots {

struct TensorSlice {
  const TensorRecord* tensor = nullptr;
  const Slice* slice = nullptr;  // one of its slices
};

// Takes bytes of slices[index], from number `at` on, and may change them.
using TakePiece = FunctionRef<void(size_t index, int64_t at, std::span<std::byte> bytes)>;

class Snapshot {
 public:
  // Throws a UserError naming the file and tensor unless the manifest and the headers of all shards
  // are complete and agree. The tensors' bytes are checked when they are read.
  explicit Snapshot(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Reads a whole slice. UserError if its checksum doesn't match.
  void Read(const TensorRecord& tensor, const Slice& slice, std::span<std::byte> to) const;

  // Reads slices in pieces on the pool's threads, in the order of the files. `take` is called by
  // several of them at a time, once for each byte; the bytes lie in one of the buffers, each of
  // which has room for an element. A slice's checksum is compared when all of it has been taken:
  // what was taken is known to be good only when the call returns.
  void Read(std::span<const TensorSlice> slices, std::span<const StagingBuffer> buffers,
            ThreadPool& pool, TakePiece take) const;

  // Compares the checksums of all tensors. UserError naming one that doesn't match.
  void Verify() const;

 private:
  std::string path_;
  Manifest manifest_;
  std::vector<ShardReader> shards_;
};

}  // namespace plimsoll::snapshots
