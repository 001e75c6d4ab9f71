#include "snapshots/snapshot.h"

#include "base/mapped_file.h"

namespace plimsoll::snapshots {

Snapshot::Snapshot(const std::string& path) : path_(path) {
  const std::string file = path + "/" + kManifestFile;
  manifest_ = ParseManifest(MappedFile(file).text(), file);
  for (size_t i = 0; i < manifest_.shards.size(); ++i) shards_.emplace_back(path, manifest_, i);
}

void Snapshot::Read(const TensorRecord& tensor, const Slice& slice, TakeBytes take) const {
  shards_[static_cast<size_t>(slice.shard)].Read(tensor, slice, take);
}

void Snapshot::Verify() const {
  for (size_t i = 0; i < shards_.size(); ++i) VerifyShard(i);
}

void Snapshot::VerifyShard(size_t shard) const {
  for (const TensorRecord& tensor : manifest_.tensors) {
    for (const Slice& slice : tensor.slices) {
      if (slice.shard == static_cast<int64_t>(shard)) shards_[shard].Verify(tensor, slice);
    }
  }
}

}  // namespace plimsoll::snapshots
