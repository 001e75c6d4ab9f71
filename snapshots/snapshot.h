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
  const Slice* slice = nullptr;  // one slice of the tensor
};

// Takes bytes of slices[index], from byte number `at` on. It may change the bytes.
using TakePiece = FunctionRef<void(size_t index, int64_t at, std::span<std::byte> bytes)>;

class Snapshot {
 public:
  // Opens a snapshot. Throws a UserError naming the file and tensor unless the manifest and the
  // headers of all shards are complete and agree. The tensors' bytes are checked when they are
  // read.
  explicit Snapshot(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Reads a complete slice. Throws a UserError if its checksum doesn't match.
  void Read(const TensorRecord& tensor, const Slice& slice, std::span<std::byte> to) const;

  // Reads slices in pieces on the pool's threads, in the order of the files. Several threads call
  // `take` at a time; each byte is passed once. The bytes lie in one of the buffers; each buffer
  // has room for at least one element. A slice's checksum is compared when all of it has been
  // taken, so bytes are verified only when this call has returned.
  void Read(std::span<const TensorSlice> slices, std::span<const StagingBuffer> buffers,
            ThreadPool& pool, TakePiece take) const;

  // Compares the checksums of all tensors. Throws a UserError naming a tensor whose checksum
  // doesn't match.
  void Verify() const;

 private:
  std::string path_;
  Manifest manifest_;
  std::vector<ShardReader> shards_;
};

}  // namespace plimsoll::snapshots
