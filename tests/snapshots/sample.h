// A small snapshot for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "snapshots/folder.h"
#include "snapshots/shard.h"
#include "snapshots/snapshot.h"

namespace plimsoll::snapshots {

// Two shards: "w" [4,6] f32 in halves, "w.m" u8 [24] in both too, "count" i32 only in the first.
// The step determines all bytes; `scale` makes w and w.m larger.
inline std::vector<std::byte> SampleBytes(int64_t step, const std::string& name, int64_t bytes) {
  std::vector<std::byte> values(static_cast<size_t>(bytes));
  uint64_t state = static_cast<uint64_t>(step) * 977 + name.size();
  for (std::byte& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<std::byte>(state >> 56);
  }
  return values;
}

// Bytes of a whole tensor of the sample.
inline int64_t SampleSize(const std::string& name, int64_t scale) {
  if (name == "w") return 96 * scale;
  return name == "w.m" ? 24 * scale : 4;
}

inline void WriteShards(const std::string& folder, int64_t step, int64_t scale,
                        Manifest& manifest) {
  using formats::TensorType;
  manifest = {.program = "test", .step = step, .run = "{\"seed\":7}"};
  manifest.tensors = {{.name = "w", .type = TensorType::kF32, .shape = {4, 6 * scale}},
                      {.name = "w.m", .type = TensorType::kU8, .shape = {24 * scale}},
                      {.name = "count", .type = TensorType::kI32, .shape = {}}};
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::vector<formats::TensorSpec> specs = {{"w", TensorType::kF32, {12 * scale}},
                                              {"w.m", TensorType::kU8, {12 * scale}}};
    if (rank == 0) specs.push_back({"count", TensorType::kI32, {}});
    const WrittenShard written = WriteShard(
        folder, "rank-" + std::to_string(rank) + ".safetensors", specs,
        [&](const formats::TensorSpec& spec, TakeBytes take) {
          const std::vector<std::byte> whole =
              SampleBytes(step, spec.name, SampleSize(spec.name, scale));
          const size_t part = spec.name == "count" ? whole.size() : whole.size() / 2;
          const auto own = std::span(whole).subspan(static_cast<size_t>(rank) * part, part);
          take(own.first(own.size() / 3));
          take(own.subspan(own.size() / 3));
        });
    manifest.shards.push_back(written.shard);
    for (TensorRecord& tensor : manifest.tensors) {
      const auto crc = written.crcs.find(tensor.name);
      if (crc == written.crcs.end()) continue;
      const int64_t elements = tensor.name == "count" ? 1 : 12 * scale;
      tensor.slices.push_back({rank, rank * elements, elements, crc->second});
    }
  }
}

inline void Save(const Folder& folder, int64_t step, int64_t scale = 1) {
  folder.Begin(step);
  Manifest manifest;
  WriteShards(folder.PartialOf(step), step, scale, manifest);
  folder.Finish(manifest);
  folder.Publish(step);
}

// True if the snapshot holds what Save() wrote. Reads all of it.
inline bool HoldsSample(const Snapshot& snapshot, int64_t scale = 1) {
  for (const TensorRecord& tensor : snapshot.manifest().tensors) {
    std::vector<std::byte> all;
    for (const Slice& slice : tensor.slices) {
      std::vector<std::byte> bytes(
          static_cast<size_t>(slice.elements * formats::TypeBytes(tensor.type)));
      snapshot.Read(tensor, slice, bytes);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    const int64_t step = snapshot.manifest().step;
    if (all != SampleBytes(step, tensor.name, SampleSize(tensor.name, scale))) return false;
  }
  return true;
}

}  // namespace plimsoll::snapshots
