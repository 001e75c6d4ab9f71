#include "trainer/save_and_resume/save_snapshot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/axes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "base/version.h"
#include "snapshots/shard.h"
#include "trainer/step/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using snapshots::Manifest;
using snapshots::TakeBytes;
using snapshots::TensorRecord;

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // part of a tensor in host memory at a time

std::vector<int64_t> DimsOf(const StateTensor& tensor) {
  const std::span<const int64_t> dims = tensor.shape.dims();
  return {dims.begin(), dims.end()};
}

// The manifest's records of the tensors that a stage's ranks save. Each of these ranks knows all of
// them.
json RecordsOf(const Session& session) {
  json records = json::array();
  for (const StateTensor& tensor : session.State()) {
    if (tensor.saved.elements == 0) continue;  // all stages have it, and the first one saves it
    json record = {{"name", tensor.name},
                   {"type", static_cast<int>(TensorTypeOf(tensor.dtype))},
                   {"shape", DimsOf(tensor)},
                   {"split", tensor.split},
                   {"slices", tensor.saved.parts}};
    if (tensor.owner) {
      record["owner"] = tensor.owner->name;
      record["as"] = Name(tensor.owner->as);
    }
    if (tensor.names_crc) record["names"] = *tensor.names_crc;
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

void RequireSharedFolder(const std::string& folder, runtime::RankGroup& ranks) {
  const std::string path = folder + "/.shared-by-ranks";
  std::string sign;
  if (ranks.rank() == 0) {
    sign =
        fmt::format("{} {}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
    WriteWhole(path, sign, OutputFile::Sync::kNo);
  }
  sign = ranks.Broadcast(sign);
  const std::string problem = FirstProblem(ranks, [&] {
    std::ifstream file = OpenFile(path);
    std::string seen;
    if (std::getline(file, seen) && seen == sign) return;
    throw UserError(folder +
                    ": this rank does not see what rank 0 writes there; run.dir must lie "
                    "on a file system that all hosts share");
  });
  if (ranks.rank() == 0) std::remove(path.c_str());
  if (!problem.empty()) throw UserError(problem);
}

std::string WriteShard(const std::string& folder, const Session& session, const Ranks& ranks,
                       const std::function<void()>& progressed) {
  std::map<std::string, StateTensor> own;
  std::vector<formats::TensorSpec> specs;
  for (const StateTensor& tensor : session.State()) {
    if (tensor.saved.elements == 0) continue;
    specs.push_back(
        {tensor.name, TensorTypeOf(tensor.dtype),
         tensor.saved.parts > 1 ? std::vector<int64_t>{tensor.saved.elements} : DimsOf(tensor)});
    own.emplace(tensor.name, tensor);
  }
  std::vector<std::byte> piece;
  const auto give = [&](const formats::TensorSpec& spec, TakeBytes take) {
    const StateTensor& tensor = own.at(spec.name);
    const int64_t size = graph::ByteSize(tensor.dtype);
    const int64_t begin = (tensor.saved.begin - tensor.begin) * size;
    const int64_t bytes = tensor.saved.elements * size;
    for (int64_t at = 0; at < bytes; at += kPieceBytes) {
      const auto count = static_cast<size_t>(std::min(kPieceBytes, bytes - at));
      if (session.copies_state()) {
        take(session.Copied(tensor).subspan(static_cast<size_t>(at), count));
      } else {
        piece.resize(count);
        session.ReadState(tensor, begin + at, piece);
        take(piece);
      }
      progressed();
    }
  };
  const snapshots::WrittenShard written = snapshots::WriteShard(
      folder, fmt::format("rank-{:05}.safetensors", ranks.rank()), specs, give);
  json told = {{"file", written.shard.file},
               {"bytes", written.shard.bytes},
               {"header", written.shard.header_crc},
               {"crcs", written.crcs}};
  const MeshPosition& position = ranks.position();
  const int64_t first = position.mesh.RankAt({{kPipelineAxis, position.at(kPipelineAxis)}});
  if (position.rank == first) told["records"] = RecordsOf(session);
  return told.dump();
}

// The ranks of a stage have the same programs, so the state of the stage's first rank determines
// the layout of all their shards.
Manifest ManifestOf(const std::vector<std::string>& shards, int64_t step, const std::string& run,
                    const Ranks& ranks) {
  Manifest manifest{
      .program = fmt::format("{} ({})", Version(), Commit()), .step = step, .run = run};
  std::vector<std::map<std::string, uint32_t>> crcs;
  std::map<int64_t, json> records;  // tensor records, by pipeline stage
  for (const std::string& text : shards) {
    json shard = json::parse(text);
    const auto rank = static_cast<int64_t>(manifest.shards.size());
    manifest.shards.push_back({shard.at("file"), shard.at("bytes"), shard.at("header")});
    crcs.push_back(shard.at("crcs"));
    if (!shard.contains("records")) continue;
    records[ranks.mesh().Coordinate(rank, kPipelineAxis)] = std::move(shard.at("records"));
  }
  for (const auto& [stage, of_stage] : records) {
    for (const json& told : of_stage) {
      const int64_t parts = told.at("split").get<bool>() ? ranks.mesh().ranks(kTensorAxis) : 1;
      const int64_t slices = told.at("slices");
      for (int64_t part = 0; part < parts; ++part) {
        TensorRecord record{told.at("name"), part, parts,
                            static_cast<formats::TensorType>(told.at("type").get<int>()),
                            told.at("shape")};
        if (told.contains("owner")) {
          record.owner = told.at("owner");
          record.as = told.at("as");
        }
        if (told.contains("names")) record.names_crc = told.at("names").get<uint32_t>();
        const int64_t elements = record.elements() / slices;
        for (int64_t slice = 0; slice < slices; ++slice) {
          const int64_t rank = ranks.mesh().RankAt(
              {{kPipelineAxis, stage}, {kDataAxis, slice}, {kTensorAxis, part}});
          record.slices.push_back(
              {rank, slice * elements, elements, crcs[static_cast<size_t>(rank)].at(record.name)});
        }
        manifest.tensors.push_back(std::move(record));
      }
    }
  }
  return manifest;
}

}  // namespace plimsoll::trainer
