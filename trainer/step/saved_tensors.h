// The whole tensors of a snapshot: the parts that the tensor ranks saved, put together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/staging.h"
#include "base/thread_pool.h"
#include "formats/safetensors.h"
#include "graph/dtype.h"
#include "models/huggingface.h"
#include "models/model.h"
#include "models/sharding.h"
#include "ops/encodings.h"
#include "snapshots/snapshot.h"

namespace plimsoll::trainer {

class SavedTensors {
 public:
  // The snapshot is from a run of `model` with these adapters, if any, and must outlive this. With
  // `averages`, parameters and states are read as the averages that the run has kept of them;
  // UserError (--ema) when it has none.
  SavedTensors(const snapshots::Snapshot& snapshot, const models::Model& model,
               const adapters::Lora& lora, bool averages = false);

  int64_t tensor_ranks() const { return tensor_ranks_; }  // that wrote the snapshot
  // How they share a parameter and what belongs to it; nullptr: each of them has all of it.
  const models::SplitParameter* SplitOf(const std::string& parameter) const;

  // The tensor's first part, which tells its type; nullptr: there is no such tensor.
  const snapshots::TensorRecord* Find(const std::string& name) const;
  // A part of what belongs to that tensor so; nullptr: nothing does.
  const snapshots::TensorRecord* FindOwned(const std::string& owner, graph::OwnedAs as,
                                           int64_t part = 0) const;

  // The bytes of the tensor `name`, which is `parameter` or belongs to it; reads nothing else from
  // the file. 8-bit state is returned as the float32 numbers that it stands for, since each rank
  // quantized blocks of its own. UserError when the tensor is damaged, missing or of
  // another size.
  std::vector<std::byte> Read(const std::string& name, const std::string& parameter) const;

  // A parameter as float32, put together from its stored tensors. The same errors.
  std::vector<float> ReadParameter(const models::ParameterInfo& parameter) const;

  // The same of many, in pieces and by the pool's threads, without ever holding a whole one that
  // the snapshot has as such: in one tensor that no ranks share, without a remainder. `take` as of
  // models::LoadWeights, but what it was given is known to be good only when the call returns.
  void Load(std::span<const models::ParameterInfo> parameters,
            std::span<const StagingBuffer> buffers, ThreadPool& pool,
            models::TakeElements take) const;

  // The value of a state for a rank that did not save one: where each rank had its own value, the
  // one that StateInfo::OnOtherRanks asks for. Throws the same errors.
  std::vector<float> ReadState(const models::StateInfo& state) const;

 private:
  std::vector<std::byte> ReadPart(const snapshots::TensorRecord& record) const;
  std::vector<std::byte> ReadNumbers(const snapshots::TensorRecord& record) const;
  void RequireAverages() const;
  // The one tensor with all that the snapshot knows of the parameter; nullptr: there are several.
  const snapshots::TensorRecord* OnlyTensorOf(const models::ParameterInfo& parameter) const;

  const snapshots::Snapshot& snapshot_;
  int64_t tensor_ranks_;
  std::map<std::string, models::SplitParameter> split_;
  bool averages_;
};

// Throws a UserError that names the snapshot and the tensor.
[[noreturn]] void FailTensor(const snapshots::Snapshot& snapshot, const std::string& name,
                             const std::string& reason);

// The type in a shard for a tensor of the arena.
formats::TensorType TensorTypeOf(graph::DType dtype);

// How the tensor is kept if it is a moment in 8 bits, and whether it is: another one then has the
// scales of its codes.
const ops::Encoding& EncodingOf(const snapshots::TensorRecord& record);
bool IsCoded(const snapshots::TensorRecord& record);

}  // namespace plimsoll::trainer
