// The files of a snapshot that hold tensors: safetensors, with checksums in the manifest.
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

// Takes some of a tensor's bytes; called repeatedly, in order.
using TakeBytes = FunctionRef<void(std::span<const std::byte>)>;

// What the manifest records about a shard that was written.
struct WrittenShard {
  Shard shard;
  std::map<std::string, uint32_t> crcs;  // by tensor
};

// Writes `folder`/`file` and waits until it is on disk. `give` is called once for each tensor and
// passes on all its bytes, in pieces of any size. Throws a UserError naming the file when it cannot
// be written; no file is left then.
using GiveBytes = std::function<void(const formats::TensorSpec&, TakeBytes)>;
WrittenShard WriteShard(const std::string& folder, const std::string& file,
                        const std::vector<formats::TensorSpec>& tensors, const GiveBytes& give);

// An existing shard, read according to the manifest.
class ShardReader {
 public:
  // Opens the file of manifest.shards[index] in `folder`. Throws a UserError naming the file and
  // tensor unless its size, its header's checksum and its tensors agree with the manifest.
  ShardReader(const std::string& folder, const Manifest& manifest, size_t index);
  // The same for bytes in memory, which must outlive the reader; `name` replaces the file's name.
  ShardReader(std::span<const std::byte> bytes, std::string name, const Manifest& manifest,
              size_t index);

  // Passes on the bytes of one of its slices, in pieces. If the checksum doesn't match, throws a
  // UserError before the first piece.
  void Read(const TensorRecord& tensor, const Slice& slice, TakeBytes take) const;
  // Compares only the checksum.
  void Verify(const TensorRecord& tensor, const Slice& slice) const;

 private:
  ShardReader(MappedFile mapped, const Manifest& manifest, size_t index);
  void InPieces(const TensorRecord& tensor, TakeBytes take) const;

  std::optional<MappedFile> mapped_;  // empty when reading from memory
  formats::SafetensorsReader tensors_;
};

}  // namespace plimsoll::snapshots
