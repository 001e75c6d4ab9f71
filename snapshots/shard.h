// The files of a snapshot that hold tensors. They are safetensors files; the manifest has their
// checksums.
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

// Takes some of a tensor's bytes. It is called repeatedly, in the order of the bytes.
using TakeBytes = FunctionRef<void(std::span<const std::byte>)>;

// Facts about a written shard, for the manifest.
struct WrittenShard {
  Shard shard;
  std::map<std::string, uint32_t> crcs;  // checksum of each tensor, by name
};

// Writes `folder`/`file` and waits until it is on disk. `give` is called once for each tensor and
// passes on all its bytes, in pieces of any size. If the file cannot be written, removes it and
// throws a UserError naming it.
using GiveBytes = std::function<void(const formats::TensorSpec&, TakeBytes)>;
WrittenShard WriteShard(const std::string& folder, const std::string& file,
                        const std::vector<formats::TensorSpec>& tensors, const GiveBytes& give);

// Reads an existing shard according to the manifest.
class ShardReader {
 public:
  // Opens the file of manifest.shards[index] in `folder`. Throws a UserError naming the file and
  // tensor unless its size, its header's checksum and its tensors agree with the manifest.
  ShardReader(const std::string& folder, const Manifest& manifest, size_t index);
  // Reads a shard from bytes in memory, which must outlive the reader; `name` replaces the file's
  // name.
  ShardReader(std::span<const std::byte> bytes, std::string name, const Manifest& manifest,
              size_t index);

  // Reads the complete slice that this shard holds of a tensor. Throws a UserError if the slice's
  // checksum doesn't match.
  void Read(const TensorRecord& tensor, std::span<std::byte> to) const;

  // Reads bytes from number `at` of the slice, on any thread. The bytes are unverified until the
  // checksum of the complete slice has been compared.
  void ReadPiece(const TensorRecord& tensor, int64_t at, std::span<std::byte> to) const;
  // Lets the system begin to fetch bytes that will soon be read.
  void WillRead(const TensorRecord& tensor, int64_t at, int64_t bytes) const;
  // Throws a UserError unless `crc` is the checksum of the shard's slice of `tensor`.
  void CompareChecksum(const TensorRecord& tensor, uint32_t crc) const;

  // The offset of the shard's slice of a tensor, for comparison with the offsets of other slices.
  int64_t PlaceOf(const TensorRecord& tensor) const { return EntryOf(tensor).begin; }

 private:
  ShardReader(formats::SafetensorsReader tensors, const Manifest& manifest, size_t index);
  const formats::TensorEntry& EntryOf(const TensorRecord& tensor) const;

  int64_t index_;  // index of the shard in the manifest
  formats::SafetensorsReader tensors_;
};

}  // namespace plimsoll::snapshots
