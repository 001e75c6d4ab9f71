// The files of a snapshot that hold tensors: safetensors, with checksums in the manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
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

  // Reads all of the shard's slice of a tensor. Throws a UserError if the slice's checksum doesn't
  // match.
  void Read(const TensorRecord& tensor, std::span<std::byte> to) const;

  // The same in pieces, on any thread: bytes from number `at` on, of which nothing is known before
  // the checksum of the whole slice has been compared.
  void ReadPiece(const TensorRecord& tensor, int64_t at, std::span<std::byte> to) const;
  // Lets the system begin to fetch bytes that will be read soon.
  void WillRead(const TensorRecord& tensor, int64_t at, int64_t bytes) const;
  // UserError unless `crc` is the checksum of its slice.
  void CompareChecksum(const TensorRecord& tensor, uint32_t crc) const;

  // Where its slice of a tensor lies, relative to those of others.
  int64_t PlaceOf(const TensorRecord& tensor) const { return EntryOf(tensor).begin; }

 private:
  ShardReader(formats::SafetensorsReader tensors, const Manifest& manifest, size_t index);
  const formats::TensorEntry& EntryOf(const TensorRecord& tensor) const;

  int64_t index_;  // among the manifest's shards
  formats::SafetensorsReader tensors_;
};

}  // namespace plimsoll::snapshots
