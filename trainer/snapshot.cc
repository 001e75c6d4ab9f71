#include "trainer/snapshot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/version.h"
#include "formats/json.h"
#include "models/sharding.h"
#include "trainer/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

using formats::TensorType;
using nlohmann::json;
using snapshots::Manifest;
using snapshots::Slice;
using snapshots::TakeBytes;
using snapshots::TensorRecord;

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // of a tensor, in host memory at a time

TensorType TypeOf(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return TensorType::kF32;
    case graph::DType::kFloat64:
      return TensorType::kF64;
    case graph::DType::kInt32:
      return TensorType::kI32;
    case graph::DType::kBFloat16:
      return TensorType::kBf16;
    case graph::DType::kFloat16:
      return TensorType::kF16;
    case graph::DType::kInt16:
      return TensorType::kI16;
    case graph::DType::kUInt8:
      return TensorType::kU8;
  }
  throw InternalError("a type that no snapshot can hold");
}

std::string ShardFile(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

snapshots::WrittenShard WriteOwn(const std::string& folder, const std::string& file,
                                 const Session& session, const std::function<void()>& progressed) {
  std::map<std::string, StateTensor> own;
  std::vector<formats::TensorSpec> specs;
  for (const StateTensor& tensor : session.State()) {
    if (tensor.saved.elements == 0) continue;
    const std::span<const int64_t> dims = tensor.shape.dims();
    specs.push_back({tensor.name, TypeOf(tensor.dtype),
                     tensor.saved.parts > 1 ? std::vector<int64_t>{tensor.saved.elements}
                                            : std::vector<int64_t>{dims.begin(), dims.end()}});
    own.emplace(tensor.name, tensor);
  }
  std::vector<std::byte> piece;
  return snapshots::WriteShard(
      folder, file, specs, [&](const formats::TensorSpec& spec, TakeBytes take) {
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
      });
}

// What a rank tells the first one of its shard.
std::string Encode(const snapshots::WrittenShard& written) {
  return json{{"file", written.shard.file},
              {"bytes", written.shard.bytes},
              {"header", written.shard.header_crc},
              {"crcs", written.crcs}}
      .dump();
}

// The ranks' shards, put together. All have the same programs, so that what the others wrote
// follows from this one's state.
Manifest Assemble(const std::vector<std::string>& told, const Session& session,
                  const Ranks& ranks) {
  Manifest manifest;
  std::vector<std::map<std::string, uint32_t>> crcs;
  for (const std::string& text : told) {
    const json shard = json::parse(text);
    manifest.shards.push_back({shard.at("file"), shard.at("bytes"), shard.at("header")});
    crcs.push_back(shard.at("crcs"));
  }
  for (const StateTensor& tensor : session.State()) {
    const int64_t parts = tensor.split ? ranks.tensor_ranks() : 1;
    const std::span<const int64_t> dims = tensor.shape.dims();
    for (int64_t part = 0; part < parts; ++part) {
      TensorRecord record{tensor.name, part, parts, TypeOf(tensor.dtype),
                          std::vector<int64_t>(dims.begin(), dims.end())};
      const int64_t elements = record.elements() / tensor.saved.parts;
      for (int64_t slice = 0; slice < tensor.saved.parts; ++slice) {
        const int64_t rank = slice * ranks.tensor_ranks() + part;
        record.slices.push_back(
            {rank, slice * elements, elements, crcs[static_cast<size_t>(rank)].at(tensor.name)});
      }
      manifest.tensors.push_back(std::move(record));
    }
  }
  return manifest;
}

// Writes what this rank has of a tensor, of whose elements `take` is given some, from `begin` on.
void WriteOverlap(const StateTensor& tensor, int64_t begin, std::span<const std::byte> bytes,
                  Session& session) {
  const int64_t size = graph::ByteSize(tensor.dtype);
  const int64_t own_begin = tensor.begin * size, own_end = own_begin + tensor.elements * size;
  const int64_t from = std::max(begin, own_begin);
  const int64_t to = std::min(begin + static_cast<int64_t>(bytes.size()), own_end);
  if (from >= to) return;
  session.WriteState(
      tensor, from - own_begin,
      bytes.subspan(static_cast<size_t>(from - begin), static_cast<size_t>(to - from)));
}

// The same ranks share it in the same way: slice by slice, whoever has them now.
void ReadPart(const snapshots::Snapshot& snapshot, const TensorRecord& record,
              const StateTensor& tensor, Session& session) {
  if (record.elements() != tensor.shape.elements()) {
    FailTensor(snapshot, tensor.name,
               fmt::format("has {} elements, not {}", record.elements(), tensor.shape.elements()));
  }
  const int64_t size = graph::ByteSize(tensor.dtype);
  for (const Slice& slice : record.slices) {
    const bool others = slice.begin >= tensor.begin + tensor.elements ||
                        slice.begin + slice.elements <= tensor.begin;
    if (others) continue;
    int64_t at = slice.begin * size;
    snapshot.Read(record, slice, [&](std::span<const std::byte> bytes) {
      WriteOverlap(tensor, at, bytes, session);
      at += static_cast<int64_t>(bytes.size());
    });
  }
}

// Another number of tensor ranks shares it: through the whole tensor, in host memory.
void ReadFromWhole(const snapshots::Snapshot& snapshot, const SavedTensors& saved,
                   const StateTensor& tensor, const models::SplitParameter* split,
                   int64_t tensor_rank, Session& session) {
  const auto size = static_cast<size_t>(graph::ByteSize(tensor.dtype));
  std::vector<std::byte> values = saved.Read(tensor.name, tensor.parameter);
  if (split != nullptr) {
    RequireAlike(snapshot, tensor.name, TypeOf(tensor.dtype), tensor.shape.elements(), *split);
    std::vector<std::byte> part(static_cast<size_t>(tensor.shape.elements()) * size);
    split->ForPieces(tensor_rank, [&](int64_t in_whole, int64_t in_part, int64_t elements) {
      std::copy_n(values.data() + static_cast<size_t>(in_whole) * size,
                  static_cast<size_t>(elements) * size,
                  part.data() + static_cast<size_t>(in_part) * size);
    });
    values = std::move(part);
  }
  if (values.size() != static_cast<size_t>(tensor.shape.elements()) * size) {
    FailTensor(snapshot, tensor.name, "is of another size");
  }
  WriteOverlap(tensor, 0, values, session);
}

void RequireSameTensors(const snapshots::Snapshot& snapshot,
                        const std::vector<StateTensor>& state) {
  std::map<std::string, TensorType> there;
  for (const TensorRecord& record : snapshot.manifest().tensors) there[record.name] = record.type;
  for (const StateTensor& tensor : state) {
    const auto found = there.find(tensor.name);
    if (found == there.end())
      FailTensor(snapshot, tensor.name, "is missing, but this run needs it");
    if (found->second != TypeOf(tensor.dtype)) {
      FailTensor(snapshot, tensor.name,
                 fmt::format("is {}, but this run has {}", formats::TypeName(found->second),
                             formats::TypeName(TypeOf(tensor.dtype))));
    }
    there.erase(found);
  }
  if (!there.empty()) {
    FailTensor(snapshot, there.begin()->first, "has no place in this run");
  }
}

}  // namespace

void RequireSharedFolder(const std::string& folder, Ranks& ranks) {
  const std::string path = folder + "/.shared-by-ranks";
  std::string sign;
  if (ranks.first()) {
    sign =
        fmt::format("{} {}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
    OutputFile file(path);
    file.Write(sign);
    file.Commit(OutputFile::Sync::kNo);
  }
  sign = ranks.Broadcast(sign);
  const std::string problem = ranks.FirstProblem([&] {
    std::ifstream file(path);
    std::string seen;
    if (std::getline(file, seen) && seen == sign) return;
    throw UserError(folder +
                    ": this rank does not see what rank 0 writes there; run.dir must lie "
                    "on a file system that all hosts share");
  });
  if (ranks.first()) std::remove(path.c_str());
  if (!problem.empty()) throw UserError(problem);
}

std::string WriteShard(const std::string& folder, const Session& session, const Ranks& ranks,
                       const std::function<void()>& progressed) {
  return Encode(WriteOwn(folder, ShardFile(ranks.rank()), session, progressed));
}

Manifest ManifestOf(const std::vector<std::string>& shards, int64_t step, const std::string& run,
                    const Session& session, const Ranks& ranks) {
  Manifest manifest = Assemble(shards, session, ranks);
  manifest.program = fmt::format("{} ({})", Version(), Commit());
  manifest.step = step;
  manifest.run = run;
  return manifest;
}

void ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                  const Ranks& ranks, Session& session) {
  const std::vector<StateTensor> state = session.State();
  RequireSameTensors(snapshot, state);
  const SavedTensors saved(snapshot, model);
  const auto split = models::SplitParameters(model, ranks.tensor_ranks());
  for (const StateTensor& tensor : state) {
    if (saved.tensor_ranks() != ranks.tensor_ranks()) {
      const auto found = split.find(tensor.parameter);
      ReadFromWhole(snapshot, saved, tensor, found == split.end() ? nullptr : &found->second,
                    ranks.tensor_rank(), session);
      continue;
    }
    const int64_t part = tensor.split ? ranks.tensor_rank() : 0;
    const TensorRecord* record = snapshot.manifest().Find(tensor.name, part);
    if (record == nullptr) FailTensor(snapshot, tensor.name, "is missing a part");
    ReadPart(snapshot, *record, tensor, session);
  }
}

}  // namespace plimsoll::trainer
