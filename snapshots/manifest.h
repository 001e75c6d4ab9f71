// The content of a snapshot: manifest.json, next to the files that it names.
//
//   {
//   "format": 1,
//   "program": "0.3.0 (1f2e3d4)",
//   "step": 1000,
//   "run": {…},                                            the trainer's part
//   "shards": [
//   {"file":"rank-00000.safetensors","bytes":…,"header_crc32c":"…"}],
//   "tensors": [
//   {"name":"wte.weight","part":0,"parts":1,"dtype":"F32","shape":[…],
//    "slices":[{"shard":0,"begin":0,"elements":…,"crc32c":"…"}]},
//   {"name":"wte.weight.m","of":"wte.weight","as":"moment",…},
//   {"name":"fp8_largest.history","of":"fp8_largest","as":"history","names_crc32c":"…",…}],
//   "crc32c": "89abcdef"
//   }
//
// The last checksum covers all bytes before its line; nothing is read before it matches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace plimsoll::snapshots {

inline constexpr const char* kManifestFile = "manifest.json";

struct Shard {
  std::string file;  // a name, without folders
  int64_t bytes = 0;
  uint32_t header_crc = 0;  // of the safetensors header with its length
};

// Consecutive elements of a tensor, row-major. In the shard they have the tensor's name.
struct Slice {
  int64_t shard = 0;
  int64_t begin = 0;
  int64_t elements = 0;
  uint32_t crc = 0;
};

// A tensor, or one rank's part if ranks share it; the trainer knows what the parts are of.
struct TensorRecord {
  std::string name;
  int64_t part = 0;
  int64_t parts = 1;
  formats::TensorType type = formats::TensorType::kF32;
  std::vector<int64_t> shape = {};
  std::vector<Slice> slices = {};  // from the first element to the last, without gaps
  // The tensor that it belongs to, and as what, a name of graph::OwnedAs; empty: to none.
  std::string owner = {}, as = {};
  // Of a history: the checksum of the names of what its elements are of.
  std::optional<uint32_t> names_crc = {};

  int64_t elements() const;
};

struct Manifest {
  std::string program;  // that wrote it
  int64_t step = 0;     // the number of steps made
  std::string run;      // a JSON object
  std::vector<Shard> shards = {};
  std::vector<TensorRecord> tensors = {};

  // nullptr: it has none.
  const TensorRecord* Find(std::string_view name, int64_t part) const;
  const TensorRecord* FindOwned(std::string_view owner, std::string_view as, int64_t part) const;
};

std::string ToText(const Manifest& manifest);

// Throws a UserError naming `where` and the tensor or shard, unless `text` is a complete and
// consistent manifest: every tensor with all its parts, every part covered by its slices exactly
// once.
Manifest ParseManifest(std::string_view text, const std::string& where);

// The text followed by the last line, with the checksum of everything before it.
std::string WithChecksum(std::string text);

}  // namespace plimsoll::snapshots
