#include "trainer/step/saved_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "optim/update.h"
#include "runtime/stored_parameter.h"

namespace plimsoll::trainer {
namespace {

using graph::OwnedAs;
using snapshots::TensorRecord;

graph::DType WeightType(const snapshots::Snapshot& snapshot, const TensorRecord& record) {
  using enum graph::DType;
  for (const graph::DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    if (record.type == TensorTypeOf(dtype)) return dtype;
  }
  FailTensor(snapshot, record.name, "is of no type that weights have");
}

int64_t TensorRanksOf(const snapshots::Manifest& manifest) {
  int64_t parts = 1;
  for (const TensorRecord& record : manifest.tensors) parts = std::max(parts, record.parts);
  return parts;
}

}  // namespace

SavedTensors::SavedTensors(const snapshots::Snapshot& snapshot, const models::Model& model,
                           const adapters::Lora& lora, bool averages)
    : snapshot_(snapshot),
      tensor_ranks_(TensorRanksOf(snapshot.manifest())),
      split_(adapters::SplitParameters(model, lora, tensor_ranks_)),
      averages_(averages) {
  if (averages_) RequireAverages();
}

void SavedTensors::RequireAverages() const {
  bool any = false;
  for (const TensorRecord& record : snapshot_.manifest().tensors) {
    if (!optim::CountsAverages(record.name)) continue;
    int32_t updates = 0;
    const std::vector<std::byte> bytes = Read(record.name, record.name);
    if (bytes.size() == sizeof(updates)) std::memcpy(&updates, bytes.data(), sizeof(updates));
    if (updates == 0) {
      throw UserError("--ema: " + snapshot_.path() + " has no averages yet: no update was applied");
    }
    any = true;
  }
  if (any) return;
  throw UserError("--ema: " + snapshot_.path() + " has no averages: its run had no optimizer.ema");
}

const TensorRecord* SavedTensors::Find(const std::string& name) const {
  return snapshot_.manifest().Find(name, 0);
}

const TensorRecord* SavedTensors::FindOwned(const std::string& owner, OwnedAs as,
                                            int64_t part) const {
  return snapshot_.manifest().FindOwned(owner, Name(as), part);
}

const models::SplitParameter* SavedTensors::SplitOf(const std::string& parameter) const {
  const auto found = split_.find(parameter);
  return found == split_.end() ? nullptr : &found->second;
}

std::vector<std::byte> SavedTensors::Read(const std::string& name,
                                          const std::string& parameter) const {
  const TensorRecord* const first = Find(name);
  if (first == nullptr) FailTensor(snapshot_, name, "is missing");
  const models::SplitParameter* const split = SplitOf(parameter);
  if (split == nullptr) return ReadNumbers(*first);
  const size_t size =
      IsCoded(*first) ? sizeof(float) : static_cast<size_t>(formats::TypeBytes(first->type));
  std::vector<std::byte> whole(static_cast<size_t>(split->shape().elements()) * size);
  for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
    const TensorRecord* const record = snapshot_.manifest().Find(name, rank);
    if (record == nullptr) FailTensor(snapshot_, name, "is missing a part");
    if (record->type != first->type || record->elements() != split->LocalShape().elements()) {
      FailTensor(snapshot_, name, "has a part of another size");
    }
    const std::vector<std::byte> part = ReadNumbers(*record);
    split->ForPieces(rank, [&](int64_t in_whole, int64_t in_part, int64_t elements) {
      std::copy_n(part.data() + static_cast<size_t>(in_part) * size,
                  static_cast<size_t>(elements) * size,
                  whole.data() + static_cast<size_t>(in_whole) * size);
    });
  }
  return whole;
}

std::vector<float> SavedTensors::ReadParameter(const models::ParameterInfo& parameter) const {
  const int64_t elements = parameter.shape.elements();
  const auto read = [&](const std::string& name, int64_t element_bytes) {
    std::vector<std::byte> bytes = Read(name, parameter.name);
    if (static_cast<int64_t>(bytes.size()) != elements * element_bytes) {
      FailTensor(snapshot_, name, "is of another size");
    }
    return bytes;
  };
  const auto read_if_any = [&](OwnedAs as, int64_t element_bytes) {
    const TensorRecord* const found = FindOwned(parameter.name, as);
    return found == nullptr ? std::vector<std::byte>() : read(found->name, element_bytes);
  };
  const TensorRecord* const average = FindOwned(parameter.name, OwnedAs::kAverage);
  if (averages_ && average != nullptr) {  // a frozen parameter has no average
    std::vector<std::byte> bytes = read(average->name, sizeof(float));
    return runtime::ValuesOf(graph::DType::kFloat32, bytes, {}, {});
  }
  const TensorRecord* const record = Find(parameter.name);
  if (record == nullptr) FailTensor(snapshot_, parameter.name, "is missing");
  const graph::DType type = WeightType(snapshot_, *record);
  std::vector<std::byte> weight = read(parameter.name, graph::ByteSize(type));
  std::vector<std::byte> remainder = read_if_any(OwnedAs::kRemainder, sizeof(int16_t));
  std::vector<std::byte> master = read_if_any(OwnedAs::kMaster, sizeof(float));
  return runtime::ValuesOf(type, weight, remainder, master);
}

const TensorRecord* SavedTensors::OnlyTensorOf(const models::ParameterInfo& parameter) const {
  if (split_.contains(parameter.name)) return nullptr;
  const TensorRecord* found = averages_ ? FindOwned(parameter.name, OwnedAs::kAverage) : nullptr;
  if (found == nullptr) found = FindOwned(parameter.name, OwnedAs::kMaster);
  if (found == nullptr && FindOwned(parameter.name, OwnedAs::kRemainder)) return nullptr;
  if (found == nullptr) found = Find(parameter.name);
  if (found == nullptr) FailTensor(snapshot_, parameter.name, "is missing");
  if (found->elements() != parameter.shape.elements()) {
    FailTensor(snapshot_, found->name, "is of another size");
  }
  return found;
}

void SavedTensors::Load(std::span<const models::ParameterInfo> parameters,
                        std::span<const StagingBuffer> buffers, ThreadPool& pool,
                        models::TakeElements take) const {
  std::vector<snapshots::TensorSlice> slices;
  struct Owner {  // the owner of a slice
    const models::ParameterInfo* parameter;
    graph::DType type;
  };
  std::vector<Owner> owners;
  std::vector<const models::ParameterInfo*> others;
  for (const models::ParameterInfo& parameter : parameters) {
    const TensorRecord* const record = OnlyTensorOf(parameter);
    if (record == nullptr) {
      others.push_back(&parameter);
      continue;
    }
    for (const snapshots::Slice& slice : record->slices) {
      slices.push_back({record, &slice});
      owners.push_back({&parameter, WeightType(snapshot_, *record)});
    }
  }
  snapshot_.Read(slices, buffers, pool,
                 [&](size_t index, int64_t at, std::span<const std::byte> bytes) {
                   const auto& [parameter, type] = owners[index];
                   const int64_t size = graph::ByteSize(type);
                   take(*parameter, slices[index].slice->begin + at / size,
                        {type, bytes.data(), static_cast<int64_t>(bytes.size()) / size});
                 });
  for (const models::ParameterInfo* parameter : others) {
    const std::vector<float> values = ReadParameter(*parameter);
    take(*parameter, 0, graph::TypedElements::Of(values));
  }
}

std::vector<float> SavedTensors::ReadState(const models::StateInfo& state) const {
  if (state.merge.ranks != graph::OverRanks::kOwn) return ReadParameter(state.info());
  const auto elements = static_cast<size_t>(state.shape.elements());
  std::vector<float> values(elements, state.initial);
  if (state.on_other_ranks == models::StateInfo::kInitial) return values;
  const std::vector<std::byte> bytes = Read(state.name, state.name);
  const size_t ranks = bytes.size() / (elements * sizeof(float));
  if (ranks == 0 || bytes.size() != ranks * elements * sizeof(float)) {
    FailTensor(snapshot_, state.name, "is of another size");
  }
  const auto* const saved = reinterpret_cast<const float*>(bytes.data());
  for (size_t i = 0; i < elements; ++i) {
    double sum = 0;
    for (size_t rank = 0; rank < ranks; ++rank) sum += saved[rank * elements + i];
    values[i] = static_cast<float>(sum / static_cast<double>(ranks));
  }
  return values;
}

std::vector<std::byte> SavedTensors::ReadNumbers(const TensorRecord& record) const {
  if (!IsCoded(record)) return ReadPart(record);
  const ops::Encoding& encoding = EncodingOf(record);
  const TensorRecord* const scales = FindOwned(record.name, OwnedAs::kScale, record.part);
  const int64_t elements = record.elements();
  const graph::TensorType expected = encoding.ScalesType({elements});
  if (scales == nullptr || scales->type != TensorTypeOf(expected.dtype) ||
      scales->elements() != expected.shape.elements()) {
    FailTensor(snapshot_, record.name, "has not one scale for each block");
  }
  const std::vector<std::byte> codes = ReadPart(record), scale_bytes = ReadPart(*scales);
  std::vector<std::byte> numbers(static_cast<size_t>(elements) * sizeof(float));
  encoding.decode(codes.data(), scale_bytes.data(), elements,
                  reinterpret_cast<float*>(numbers.data()));
  return numbers;
}

std::vector<std::byte> SavedTensors::ReadPart(const TensorRecord& record) const {
  const int64_t size = formats::TypeBytes(record.type);
  std::vector<std::byte> part(static_cast<size_t>(record.elements() * size));
  for (const snapshots::Slice& slice : record.slices) {
    snapshot_.Read(record, slice,
                   std::span(part).subspan(static_cast<size_t>(slice.begin * size),
                                           static_cast<size_t>(slice.elements * size)));
  }
  return part;
}

void FailTensor(const snapshots::Snapshot& snapshot, const std::string& name,
                const std::string& reason) {
  throw UserError(fmt::format("{}: tensor \"{}\": {}", snapshot.path(), name, reason));
}

formats::TensorType TensorTypeOf(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return formats::TensorType::kF32;
    case graph::DType::kFloat64:
      return formats::TensorType::kF64;
    case graph::DType::kInt32:
      return formats::TensorType::kI32;
    case graph::DType::kBFloat16:
      return formats::TensorType::kBf16;
    case graph::DType::kFloat16:
      return formats::TensorType::kF16;
    case graph::DType::kInt16:
      return formats::TensorType::kI16;
    case graph::DType::kUInt8:
      return formats::TensorType::kU8;
    case graph::DType::kFloat8E4M3:
    case graph::DType::kFloat8E5M2:
      break;
  }
  throw InternalError("a type that no snapshot can hold");
}

const ops::Encoding& EncodingOf(const TensorRecord& record) {
  return optim::EncodingOf(graph::ParseOwnedAs(record.as).value_or(OwnedAs::kMoment));
}

bool IsCoded(const TensorRecord& record) {
  return record.type == TensorTypeOf(EncodingOf(record).codes);
}

}  // namespace plimsoll::trainer
