// The files of a snapshot that hold tensors: safetensors, whose checksums the manifest has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "snapshots/manifest.h"

namespace plimsoll::snapshots {

// Takes some of a tensor's bytes; called for one after the other.
using TakeBytes = FunctionRef<void(std::span<const std::byte>)>;

// What the manifest is to say of a shard that was written.
struct WrittenShard {
  Shard shard;
  std::map<std::string, uint32_t> crcs;  // by tensor
};

// Writes `folder`/`file` and waits until it is on disk. `give` is called once for each tensor and
// hands on its bytes, as many as it has, in pieces of any size. UserError, naming the file, when it
// cannot be written; then there is none.
using GiveBytes = std::function<void(const formats::TensorSpec&, TakeBytes)>;
WrittenShard WriteShard(const std::string& folder, const std::string& file,
                        const std::vector<formats::TensorSpec>& tensors, const GiveBytes& give);

// A shard that is there, in the manifest's terms.
class ShardReader {
 public:
  // Of the file of manifest.shards[index] in `folder`. UserError, naming the file and tensor,
  // unless its size, its header's checksum and its tensors are those of the manifest.
  ShardReader(const std::string& folder, const Manifest& manifest, size_t index);
  // The same over bytes in memory, which must outlive the reader; `name` stands for the file.
  ShardReader(std::span<const std::byte> bytes, std::string name, const Manifest& manifest,
              size_t index);

  // Hands on the bytes of one of its slices, in pieces. UserError before the first of them when
  // the checksum is another.
  void Read(const TensorRecord& tensor, const Slice& slice, TakeBytes take) const;
  // Only compares the checksum.
  void Verify(const TensorRecord& tensor, const Slice& slice) const;

 private:
  ShardReader(MappedFile mapped, const Manifest& manifest, size_t index);
  void InPieces(const TensorRecord& tensor, TakeBytes take) const;

  std::optional<MappedFile> mapped_;  // empty when reading from memory
  formats::SafetensorsReader tensors_;
};

}  // namespace plimsoll::snapshots
