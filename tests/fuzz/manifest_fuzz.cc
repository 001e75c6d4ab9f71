// Any text followed by its checksum either is a manifest, whose text form is the same again, or
// raises a UserError.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "snapshots/manifest.h"

namespace {

using plimsoll::UserError;
namespace snapshots = plimsoll::snapshots;

void Require(bool condition) {
  if (!condition) __builtin_trap();
}

void Check(const std::string& text) {
  try {
    const snapshots::Manifest manifest = snapshots::ParseManifest(text, "fuzz");
    for (const snapshots::TensorRecord& tensor : manifest.tensors) {
      int64_t covered = 0;
      for (const snapshots::Slice& slice : tensor.slices) {
        Require(slice.begin == covered);
        Require(static_cast<size_t>(slice.shard) < manifest.shards.size());
        covered += slice.elements;
      }
      Require(covered == tensor.elements());
      Require(manifest.Find(tensor.name, tensor.part) == &tensor);
    }
    const std::string again = ToText(manifest);
    Require(ToText(snapshots::ParseManifest(again, "again")) == again);
  } catch (const UserError& error) {
    Require(std::string(error.what()).find('\n') == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Check(text);
  Check(snapshots::WithChecksum(text));
  return 0;
}
