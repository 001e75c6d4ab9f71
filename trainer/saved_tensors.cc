#include "trainer/saved_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"

namespace plimsoll::trainer {
namespace {

using snapshots::TensorRecord;

int64_t TensorRanksOf(const snapshots::Manifest& manifest) {
  int64_t parts = 1;
  for (const TensorRecord& record : manifest.tensors) parts = std::max(parts, record.parts);
  return parts;
}

}  // namespace

SavedTensors::SavedTensors(const snapshots::Snapshot& snapshot, const models::Model& model)
    : snapshot_(snapshot),
      tensor_ranks_(TensorRanksOf(snapshot.manifest())),
      split_(models::SplitParameters(model, tensor_ranks_)) {}

const TensorRecord* SavedTensors::Find(const std::string& name) const {
  return snapshot_.manifest().Find(name, 0);
}

std::vector<std::byte> SavedTensors::Read(const std::string& name,
                                          const std::string& parameter) const {
  const TensorRecord* const first = Find(name);
  if (first == nullptr) FailTensor(snapshot_, name, "is missing");
  const auto found = split_.find(parameter);
  if (found == split_.end()) return ReadPart(*first);

  const models::SplitParameter& split = found->second;
  const auto size = static_cast<size_t>(formats::TypeBytes(first->type));
  std::vector<std::byte> whole(static_cast<size_t>(split.shape().elements()) * size);
  for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
    const TensorRecord* const record = snapshot_.manifest().Find(name, rank);
    if (record == nullptr) FailTensor(snapshot_, name, "is missing a part");
    RequireAlike(snapshot_, name, record->type, record->elements(), split);
    const std::vector<std::byte> part = ReadPart(*record);
    split.ForPieces(rank, [&](int64_t in_whole, int64_t in_part, int64_t elements) {
      std::copy_n(part.data() + static_cast<size_t>(in_part) * size,
                  static_cast<size_t>(elements) * size,
                  whole.data() + static_cast<size_t>(in_whole) * size);
    });
  }
  return whole;
}

std::vector<std::byte> SavedTensors::ReadPart(const TensorRecord& record) const {
  const int64_t size = formats::TypeBytes(record.type);
  std::vector<std::byte> part(static_cast<size_t>(record.elements() * size));
  for (const snapshots::Slice& slice : record.slices) {
    auto to = part.begin() + slice.begin * size;
    snapshot_.Read(record, slice, [&](std::span<const std::byte> bytes) {
      to = std::ranges::copy(bytes, to).out;
    });
  }
  return part;
}

void FailTensor(const snapshots::Snapshot& snapshot, const std::string& name,
                const std::string& reason) {
  throw UserError(fmt::format("{}: tensor \"{}\": {}", snapshot.path(), name, reason));
}

void RequireAlike(const snapshots::Snapshot& snapshot, const std::string& name,
                  formats::TensorType type, int64_t elements, const models::SplitParameter& split) {
  if (type != formats::TensorType::kU8 && elements == split.LocalShape().elements()) return;
  FailTensor(snapshot, name,
             "8-bit optimizer state cannot go to another number of tensor ranks; resume with "
             "parallel.tensor as it was");
}

}  // namespace plimsoll::trainer
