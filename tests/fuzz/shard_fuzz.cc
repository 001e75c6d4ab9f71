// Any bytes whose header matches the manifest's checksum either are a shard with the manifest's
// tensors, whose bytes can be read, or raise a UserError.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/crc32c.h"
#include "base/error.h"
#include "snapshots/shard.h"

namespace {

using plimsoll::Crc32c;
using plimsoll::UserError;
namespace formats = plimsoll::formats;
namespace snapshots = plimsoll::snapshots;

void Require(bool condition) {
  if (!condition) __builtin_trap();
}

// The manifest of a shard with these bytes, whatever their header says.
snapshots::Manifest ManifestFor(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  if (bytes.size() >= 8) std::memcpy(&length, bytes.data(), 8);
  const bool fits = bytes.size() >= 8 && length <= bytes.size() - 8;
  const uint32_t crc = fits ? Crc32c(bytes.first(8 + static_cast<size_t>(length))) : 0;
  snapshots::Manifest manifest;
  manifest.shards = {{"fuzz", static_cast<int64_t>(bytes.size()), crc}};
  const auto add = [&](const char* name, formats::TensorType type, int64_t elements) {
    snapshots::TensorRecord tensor;
    tensor.name = name;
    tensor.type = type;
    tensor.shape = {elements};
    tensor.slices = {{0, 0, elements, 0}};
    manifest.tensors.push_back(tensor);
  };
  add("w", formats::TensorType::kF32, 6);
  add("w.m", formats::TensorType::kU8, 5);
  return manifest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  snapshots::Manifest manifest = ManifestFor(bytes);
  try {
    const snapshots::ShardReader reader(bytes, "fuzz", manifest, 0);
    for (snapshots::TensorRecord& tensor : manifest.tensors) {
      // The data begins where the header ends: the last 29 bytes, with w before or after w.m.
      const size_t bytes_of = static_cast<size_t>(tensor.elements()) *
                              static_cast<size_t>(formats::TypeBytes(tensor.type));
      snapshots::Slice& slice = tensor.slices[0];
      std::vector<std::byte> read(bytes_of);
      for (const size_t before : {size_t{29}, size_t{24}, size_t{5}}) {
        if (before < bytes_of || before > size) continue;
        slice.crc = Crc32c(bytes.subspan(size - before, bytes_of));
        try {
          reader.Read(tensor, read);
          Require(Crc32c(read) == slice.crc);
        } catch (const UserError&) {
        }
      }
    }
  } catch (const UserError& error) {
    Require(std::string(error.what()).find('\n') == std::string::npos);
  }
  return 0;
}
