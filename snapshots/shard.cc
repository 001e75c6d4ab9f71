#include "snapshots/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/random_access_file.h"
#include "formats/json.h"

namespace plimsoll::snapshots {
namespace {

using formats::SafetensorsReader;
using formats::TensorSpec;

// Bytes read at a time: few enough to be in the cache when their checksum is computed.
constexpr size_t kPieceBytes = size_t{256} << 10;

[[noreturn]] void Fail(const std::string& file, const std::string& reason) {
  throw UserError(
      fmt::format("{}: {}; the snapshot is damaged or incomplete, use another one", file, reason));
}

[[noreturn]] void FailTensor(const std::string& file, const std::string& tensor,
                             const std::string& reason) {
  Fail(file, fmt::format("tensor \"{}\": {}", formats::Printable(tensor), reason));
}

// Checks the size and the header of the file before anything else in it is read.
void CheckHeader(std::span<const std::byte> bytes, const std::string& name, const Shard& shard) {
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
}

SafetensorsReader Open(std::span<const std::byte> bytes, const std::string& name,
                       const Shard& shard) {
  CheckHeader(bytes, name, shard);
  return SafetensorsReader(bytes, name);
}

SafetensorsReader Open(RandomAccessFile file, const Shard& shard) {
  const MappedFile mapped(file.descriptor(), file.path());
  CheckHeader(std::as_bytes(mapped.bytes()), file.path(), shard);
  return SafetensorsReader(std::move(file));
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
    : ShardReader(Open(RandomAccessFile(folder + "/" + manifest.shards[index].file),
                       manifest.shards[index]),
                  manifest, index) {}

ShardReader::ShardReader(std::span<const std::byte> bytes, std::string name,
                         const Manifest& manifest, size_t index)
    : ShardReader(Open(bytes, name, manifest.shards[index]), manifest, index) {}

// Checks that the shard contains exactly the tensors in the manifest.
ShardReader::ShardReader(SafetensorsReader tensors, const Manifest& manifest, size_t index)
    : index_(static_cast<int64_t>(index)), tensors_(std::move(tensors)) {
  size_t slices = 0;
  for (const TensorRecord& tensor : manifest.tensors) {
    for (const Slice& slice : tensor.slices) {
      if (slice.shard != index_) continue;
      ++slices;
      const formats::TensorEntry* entry = tensors_.Find(tensor.name);
      if (entry == nullptr) FailTensor(tensors_.file(), tensor.name, "is missing");
      if (entry->type != tensor.type || entry->elements != slice.elements) {
        FailTensor(tensors_.file(), tensor.name,
                   fmt::format("has {} elements of {}, not {} of {}", entry->elements,
                               formats::TypeName(entry->type), slice.elements,
                               formats::TypeName(tensor.type)));
      }
    }
  }
  if (slices != tensors_.tensors().size()) {
    Fail(tensors_.file(), "holds tensors that the manifest does not name");
  }
}

const formats::TensorEntry& ShardReader::EntryOf(const TensorRecord& tensor) const {
  return tensors_.Require(tensor.name);
}

void ShardReader::ReadPiece(const TensorRecord& tensor, int64_t at, std::span<std::byte> to) const {
  tensors_.Read(EntryOf(tensor), at, to);
}

void ShardReader::WillRead(const TensorRecord& tensor, int64_t at, int64_t bytes) const {
  tensors_.WillRead(EntryOf(tensor), at, bytes);
}

void ShardReader::CompareChecksum(const TensorRecord& tensor, uint32_t crc) const {
  const auto slice = std::ranges::find(tensor.slices, index_, &Slice::shard);
  if (slice == tensor.slices.end() || slice->crc != crc) {
    FailTensor(tensors_.file(), tensor.name, "checksum does not match");
  }
}

void ShardReader::Read(const TensorRecord& tensor, std::span<std::byte> to) const {
  uint32_t crc = 0;
  for (size_t at = 0; at < to.size(); at += kPieceBytes) {
    const std::span<std::byte> piece = to.subspan(at, std::min(kPieceBytes, to.size() - at));
    ReadPiece(tensor, static_cast<int64_t>(at), piece);
    crc = Crc32c(piece, crc);
  }
  CompareChecksum(tensor, crc);
}

}  // namespace plimsoll::snapshots
