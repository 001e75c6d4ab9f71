#include "snapshots/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "formats/json.h"

namespace plimsoll::snapshots {
namespace {

using formats::SafetensorsReader;
using formats::TensorSpec;

constexpr size_t kPieceBytes = size_t{1} << 20;  // of a file, in memory at once

[[noreturn]] void Fail(const std::string& file, const std::string& reason) {
  throw UserError(
      fmt::format("{}: {}; the snapshot is damaged or incomplete, use another one", file, reason));
}

[[noreturn]] void FailTensor(const std::string& file, const std::string& tensor,
                             const std::string& reason) {
  Fail(file, fmt::format("tensor \"{}\": {}", formats::Printable(tensor), reason));
}

// Checks the size of the file and its header before anything else in it is read.
SafetensorsReader Open(std::span<const std::byte> bytes, const std::string& name,
                       const Shard& shard) {
  if (static_cast<int64_t>(bytes.size()) != shard.bytes) {
    Fail(name,
         fmt::format("has {} bytes, not the {} that were written", bytes.size(), shard.bytes));
  }
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) Fail(name, "has no header");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > bytes.size() - sizeof(length)) Fail(name, "its header passes its end");
  if (Crc32c(bytes.first(sizeof(length) + static_cast<size_t>(length))) != shard.header_crc) {
    Fail(name, "the header's checksum does not match");
  }
  return SafetensorsReader(bytes, name);
}

// Checks that the shard contains exactly the tensors in the manifest.
void CheckTensors(const SafetensorsReader& reader, const Manifest& manifest, size_t index) {
  size_t slices = 0;
  for (const TensorRecord& tensor : manifest.tensors) {
    for (const Slice& slice : tensor.slices) {
      if (slice.shard != static_cast<int64_t>(index)) continue;
      ++slices;
      const formats::TensorEntry* entry = reader.Find(tensor.name);
      if (entry == nullptr) FailTensor(reader.file(), tensor.name, "is missing");
      if (entry->type != tensor.type || entry->elements != slice.elements) {
        FailTensor(reader.file(), tensor.name,
                   fmt::format("has {} elements of {}, not {} of {}", entry->elements,
                               formats::TypeName(entry->type), slice.elements,
                               formats::TypeName(tensor.type)));
      }
    }
  }
  if (slices != reader.tensors().size()) {
    Fail(reader.file(), "holds tensors that the manifest does not name");
  }
}

}  // namespace

WrittenShard WriteShard(const std::string& folder, const std::string& file,
                        const std::vector<TensorSpec>& tensors, const GiveBytes& give) {
  const std::string header = formats::SafetensorsHeader(tensors);
  WrittenShard written{{file, static_cast<int64_t>(header.size()), Crc32c(header)}, {}};
  formats::WriteSafetensors(folder + "/" + file, tensors,
                            [&](const TensorSpec& tensor, formats::TensorSink& sink) {
                              uint32_t& crc = written.crcs[tensor.name];
                              give(tensor, [&](std::span<const std::byte> bytes) {
                                crc = Crc32c(bytes, crc);
                                sink.Write(bytes);
                                written.shard.bytes += static_cast<int64_t>(bytes.size());
                              });
                            });
  return written;
}

ShardReader::ShardReader(const std::string& folder, const Manifest& manifest, size_t index)
    : ShardReader(MappedFile(folder + "/" + manifest.shards[index].file), manifest, index) {}

ShardReader::ShardReader(MappedFile mapped, const Manifest& manifest, size_t index)
    : ShardReader(std::as_bytes(mapped.bytes()), mapped.path(), manifest, index) {
  mapped_ = std::move(mapped);  // moving doesn't change its address
}

ShardReader::ShardReader(std::span<const std::byte> bytes, std::string name,
                         const Manifest& manifest, size_t index)
    : tensors_(Open(bytes, name, manifest.shards[index])) {
  CheckTensors(tensors_, manifest, index);
}

void ShardReader::Verify(const TensorRecord& tensor, const Slice& slice) const {
  uint32_t crc = 0;
  InPieces(tensor, [&](std::span<const std::byte> piece) { crc = Crc32c(piece, crc); });
  if (crc != slice.crc) FailTensor(tensors_.file(), tensor.name, "checksum does not match");
}

void ShardReader::Read(const TensorRecord& tensor, const Slice& slice, TakeBytes take) const {
  Verify(tensor, slice);
  InPieces(tensor, take);
}

// Releases memory on the way: pages that were read count as the process's own.
void ShardReader::InPieces(const TensorRecord& tensor, TakeBytes take) const {
  std::span<const std::byte> bytes = tensors_.Raw(tensor.name);
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kPieceBytes);
    take(bytes.first(size));
    bytes = bytes.subspan(size);
    if (mapped_) mapped_->Release();
  }
}

}  // namespace plimsoll::snapshots
