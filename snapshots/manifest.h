// The content of a snapshot: manifest.json, next to the files that it names.
//
//   {
//   "format": 1,
//   "program": "0.3.0 (1f2e3d4)",
//   "step": 1000,
//   "run": {…},                                            an object of the trainer
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
// The last checksum covers all bytes before its line. Nothing is parsed before the checksum
// matches.
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
  std::string file;  // file name without folders
  int64_t bytes = 0;
  uint32_t header_crc = 0;  // checksum of the safetensors header and its length field
};

// Consecutive elements of a tensor, in row-major order. The shard stores them under the tensor's
// name.
struct Slice {
  int64_t shard = 0;
  int64_t begin = 0;
  int64_t elements = 0;
  uint32_t crc = 0;
};

// A tensor or, if ranks share it, one rank's part. Only the trainer knows how tensors are split.
struct TensorRecord {
  std::string name;
  int64_t part = 0;
  int64_t parts = 1;
  formats::TensorType type = formats::TensorType::kF32;
  std::vector<int64_t> shape = {};
  std::vector<Slice> slices = {};  // cover all elements in order, without gaps
  // The tensor's owner, and its kind as a name of graph::OwnedAs ("moment"); empty: no owner.
  std::string owner = {}, as = {};
  // Only for a history: the checksum of the names that its elements belong to.
  std::optional<uint32_t> names_crc = {};

  int64_t elements() const;
};

struct Manifest {
  std::string program;  // program that wrote the snapshot
  int64_t step = 0;     // number of training steps made so far
  std::string run;      // a JSON object
  std::vector<Shard> shards = {};
  std::vector<TensorRecord> tensors = {};

  // The record of a tensor's part; nullptr if the manifest has none.
  const TensorRecord* Find(std::string_view name, int64_t part) const;
  const TensorRecord* FindOwned(std::string_view owner, std::string_view as, int64_t part) const;
};

std::string ToText(const Manifest& manifest);

// Parses and checks a manifest. Throws a UserError naming `where` and the tensor or shard unless
// `text` is complete and consistent: every tensor has all its parts, and every part is covered by
// its slices exactly once.
Manifest ParseManifest(std::string_view text, const std::string& where);

// The text followed by a last line with the checksum of everything before it.
std::string WithChecksum(std::string text);

}  // namespace plimsoll::snapshots
