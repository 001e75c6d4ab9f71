#include "snapshots/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "formats/json.h"

namespace plimsoll::snapshots {
namespace {

using formats::JsonObject;
using nlohmann::ordered_json;

constexpr int64_t kFormat = 1;
constexpr int64_t kMaxRanks = int64_t{1} << 20;
constexpr size_t kHexDigits = 8;

std::string Hex(uint32_t crc) { return fmt::format("{:08x}", crc); }

uint32_t RequireCrc(const JsonObject& object, const std::string& key) {
  const std::string text = object.RequireString(key);
  uint32_t crc = 0;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (Hex(crc) != text) object.Fail(key, "is no checksum");
  return crc;
}

// The last line of a manifest: its text before the checksum, and after it.
constexpr std::string_view kLastLine = "\"crc32c\": \"";
constexpr std::string_view kEnd = "\"\n}\n";

// Whether `name` is that of a file directly in the snapshot's folder.
bool IsFileName(const std::string& name) {
  return !name.empty() && name.front() != '.' && name != kManifestFile &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

Shard ParseShard(const JsonObject& object) {
  Shard shard{object.RequireString("file"), object.RequireInt("bytes", 0),
              RequireCrc(object, "header_crc32c")};
  if (!IsFileName(shard.file)) object.Fail("file", "must name a file next to the manifest");
  return shard;
}

TensorRecord ParseTensor(const JsonObject& object, int64_t shards) {
  TensorRecord tensor{.name = object.RequireString("name"),
                      .part = object.RequireInt("part", 0, kMaxRanks),
                      .parts = object.RequireInt("parts", 1, kMaxRanks),
                      .shape = object.RequireInts("shape", 0),
                      .owner = object.GetString("of", ""),
                      .as = object.GetString("as", "")};
  if (object.Has("names_crc32c")) tensor.names_crc = RequireCrc(object, "names_crc32c");
  if (tensor.owner.empty() != tensor.as.empty()) object.Fail("of", "goes with \"as\"");
  if (tensor.part >= tensor.parts) object.Fail("part", "is not one of the tensor's parts");
  const auto type = formats::ParseTypeName(object.RequireString("dtype"));
  if (!type) object.Fail("dtype", "is unknown");
  tensor.type = *type;
  const auto elements = formats::CountElements(tensor.shape);
  if (!elements || *elements > JsonObject::kMaxInt / formats::TypeBytes(*type)) {
    object.Fail("shape", "is too large to address");
  }
  int64_t covered = 0;
  for (const JsonObject& entry : object.RequireObjects("slices")) {
    const Slice slice{entry.RequireInt("shard", 0, shards - 1), entry.RequireInt("begin", 0),
                      entry.RequireInt("elements", 1, *elements), RequireCrc(entry, "crc32c")};
    if (slice.begin != covered) entry.Fail("begin", "is not where the slice before it ends");
    if (slice.elements > *elements - covered) entry.Fail("elements", "pass the tensor's end");
    covered += slice.elements;
    tensor.slices.push_back(slice);
  }
  if (covered != *elements) object.Fail("slices", "do not cover the tensor");
  return tensor;
}

// Checks that all parts of each tensor exist once and agree with each other, and that each shard
// has no duplicate names and no more elements than its bytes can hold.
void CheckTogether(const Manifest& manifest, const std::string& where) {
  const auto fail = [&](const std::string& name, const char* reason) {
    throw UserError(fmt::format("{}: tensor \"{}\": {}; the snapshot is damaged", where,
                                formats::Printable(name), reason));
  };
  struct Parts {
    int64_t all = 0;
    formats::TensorType type = formats::TensorType::kF32;
    std::set<int64_t> there = {};
  };
  std::map<std::string, Parts> tensors;
  std::set<std::pair<int64_t, std::string>> in_shards;
  std::vector<int64_t> room;
  for (const Shard& shard : manifest.shards) room.push_back(shard.bytes);
  for (const TensorRecord& record : manifest.tensors) {
    Parts& parts = tensors.try_emplace(record.name, Parts{record.parts, record.type}).first->second;
    if (parts.all != record.parts || parts.type != record.type) fail(record.name, "parts differ");
    if (!parts.there.insert(record.part).second) fail(record.name, "a part is there twice");
    for (const Slice& slice : record.slices) {
      if (!in_shards.emplace(slice.shard, record.name).second) {
        fail(record.name, "is twice in a shard");
      }
      int64_t& left = room[static_cast<size_t>(slice.shard)];
      left -= slice.elements * formats::TypeBytes(record.type);
      if (left < 0) fail(record.name, "passes the end of its shard");
    }
  }
  for (const auto& [name, parts] : tensors) {
    if (static_cast<int64_t>(parts.there.size()) != parts.all) fail(name, "a part is missing");
  }
}

// Derives owners from the names of tensors, for manifests of versions that did not store owners.
void TakeOwnersFromNames(Manifest& manifest) {
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".remainder", "remainder"}, {".master", "master"}, {".m", "moment"},   {".v", "variance"},
      {".momentum", "moment"},     {".scale", "scale"},   {".ema", "average"}};
  std::set<std::string, std::less<>> names;
  for (const TensorRecord& tensor : manifest.tensors) {
    if (!tensor.owner.empty()) return;
    names.insert(tensor.name);
  }
  for (TensorRecord& tensor : manifest.tensors) {
    for (const auto& [ending, as] : kEndings) {
      const std::string_view name = tensor.name;
      if (!name.ends_with(ending)) continue;
      const auto owner = names.find(name.substr(0, name.size() - ending.size()));
      if (owner == names.end()) continue;
      tensor.owner = *owner;
      tensor.as = as;
    }
  }
}

}  // namespace

int64_t TensorRecord::elements() const { return formats::CountElements(shape).value_or(0); }

const TensorRecord* Manifest::Find(std::string_view name, int64_t part) const {
  const auto found = std::ranges::find_if(tensors, [&](const TensorRecord& record) {
    return record.part == part && record.name == name;
  });
  return found == tensors.end() ? nullptr : &*found;
}

const TensorRecord* Manifest::FindOwned(std::string_view owner, std::string_view as,
                                        int64_t part) const {
  const auto found = std::ranges::find_if(tensors, [&](const TensorRecord& record) {
    return record.part == part && record.owner == owner && record.as == as;
  });
  return found == tensors.end() ? nullptr : &*found;
}

std::string WithChecksum(std::string text) {
  const std::string crc = Hex(Crc32c(text));
  return std::move(text) + std::string(kLastLine) + crc + std::string(kEnd);
}

std::string ToText(const Manifest& manifest) {
  std::vector<std::string> shards, tensors;
  for (const Shard& shard : manifest.shards) {
    shards.push_back(ordered_json{
        {"file", shard.file}, {"bytes", shard.bytes}, {"header_crc32c", Hex(shard.header_crc)}}
                         .dump());
  }
  for (const TensorRecord& tensor : manifest.tensors) {
    ordered_json slices = ordered_json::array();
    for (const Slice& slice : tensor.slices) {
      slices.push_back({{"shard", slice.shard},
                        {"begin", slice.begin},
                        {"elements", slice.elements},
                        {"crc32c", Hex(slice.crc)}});
    }
    ordered_json entry = {{"name", tensor.name},   {"part", tensor.part},
                          {"parts", tensor.parts}, {"dtype", formats::TypeName(tensor.type)},
                          {"shape", tensor.shape}, {"slices", slices}};
    if (!tensor.owner.empty()) {
      entry["of"] = tensor.owner;
      entry["as"] = tensor.as;
    }
    if (tensor.names_crc) entry["names_crc32c"] = Hex(*tensor.names_crc);
    tensors.push_back(entry.dump());
  }
  return WithChecksum(
      fmt::format("{{\n\"format\": {},\n\"program\": {},\n\"step\": {},\n\"run\": {},\n"
                  "\"shards\": [\n{}],\n\"tensors\": [\n{}],\n",
                  kFormat, ordered_json(manifest.program).dump(), manifest.step, manifest.run,
                  fmt::join(shards, ",\n"), fmt::join(tensors, ",\n")));
}

Manifest ParseManifest(std::string_view text, const std::string& where) {
  const size_t tail = kLastLine.size() + kHexDigits + kEnd.size();
  const std::string_view content = text.substr(0, text.size() - std::min(tail, text.size()));
  if (text != WithChecksum(std::string(content))) {
    throw UserError(where + ": checksum does not match; the snapshot is damaged or incomplete");
  }
  const JsonObject object = JsonObject::FromText(text, where);
  if (object.RequireInt("format") != kFormat) {
    object.Fail("format", fmt::format("is not {}, which this program reads; another version of "
                                      "Plimsoll wrote it",
                                      kFormat));
  }
  Manifest manifest{.program = object.RequireString("program"),
                    .step = object.RequireInt("step", 0),
                    .run = object.RequireObject("run").json().dump()};
  std::set<std::string> files;
  for (const JsonObject& shard : object.RequireObjects("shards")) {
    manifest.shards.push_back(ParseShard(shard));
    if (!files.insert(manifest.shards.back().file).second) shard.Fail("file", "is there twice");
  }
  const auto shards = static_cast<int64_t>(manifest.shards.size());
  for (const JsonObject& tensor : object.RequireObjects("tensors")) {
    manifest.tensors.push_back(ParseTensor(tensor, shards));
  }
  TakeOwnersFromNames(manifest);
  CheckTogether(manifest, where);
  return manifest;
}

}  // namespace plimsoll::snapshots
