// A complete snapshot, for reading.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "snapshots/manifest.h"
#include "snapshots/shard.h"

namespace plimsoll::snapshots {

class Snapshot {
 public:
  // Throws a UserError naming the file and tensor unless the manifest and the headers of all shards
  // are complete and agree. The tensors' bytes are checked when they are read.
  explicit Snapshot(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Calls ShardReader::Read of the shard that has the slice.
  void Read(const TensorRecord& tensor, const Slice& slice, TakeBytes take) const;

  // Compares the checksums of all tensors, or of those in one shard.
  void Verify() const;
  void VerifyShard(size_t shard) const;

 private:
  std::string path_;
  Manifest manifest_;
  std::vector<ShardReader> shards_;
};

}  // namespace plimsoll::snapshots
