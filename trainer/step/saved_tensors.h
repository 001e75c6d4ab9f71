// Reads the unsharded tensors of a snapshot: joins the shards that the tensor-parallel ranks saved.
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
  // `snapshot` is from a run of `model` with the adapters `lora`, if any. `snapshot` and `model`
  // must outlive this object. With `averages`, parameters and states are read as their saved
  // averages (EMA). Throws a UserError (--ema) if the snapshot has no averages.
  SavedTensors(const snapshots::Snapshot& snapshot, const models::Model& model,
               const adapters::Lora& lora, bool averages = false);

  int64_t tensor_ranks() const {
    return tensor_ranks_;
  }  // number in the run that wrote the snapshot
  // How the tensor ranks of that run split a parameter and its state. nullptr means that each rank
  // has the full parameter.
  const models::SplitParameter* SplitOf(const std::string& parameter) const;

  // The tensor's first saved part, which has the tensor's type. Returns nullptr if the tensor does
  // not exist.
  const snapshots::TensorRecord* Find(const std::string& name) const;
  // A saved part of the tensor that `owner` owns in the role `as`. Returns nullptr if no such
  // tensor exists.
  const snapshots::TensorRecord* FindOwned(const std::string& owner, graph::OwnedAs as,
                                           int64_t part = 0) const;

  // The bytes of the tensor `name`, which is `parameter` or belongs to `parameter`. Reads nothing
  // else from the file. 8-bit state is returned as float32 numbers, because each rank quantized its
  // own blocks. Throws a UserError if the tensor is damaged, missing or of an unexpected size.
  std::vector<std::byte> Read(const std::string& name, const std::string& parameter) const;

  // A parameter as float32, joined from its stored tensors. Throws the same errors as Read.
  std::vector<float> ReadParameter(const models::ParameterInfo& parameter) const;

  // Reads many parameters chunk by chunk on the pool's threads. A parameter that is stored as one
  // unsplit tensor without a remainder is never in memory as a whole. `take` is as for
  // models::LoadWeights, but the checksums of elements are verified only when the call returns,
  // after `take` has received them.
  void Load(std::span<const models::ParameterInfo> parameters,
            std::span<const StagingBuffer> buffers, ThreadPool& pool,
            models::TakeElements take) const;

  // A state's value for a rank that did not save one. If each rank had its own value,
  // StateInfo::OnOtherRanks decides which value to return. Throws the same errors as Read.
  std::vector<float> ReadState(const models::StateInfo& state) const;

 private:
  std::vector<std::byte> ReadPart(const snapshots::TensorRecord& record) const;
  std::vector<std::byte> ReadNumbers(const snapshots::TensorRecord& record) const;
  void RequireAverages() const;
  // The tensor, if exactly one tensor holds the parameter; otherwise nullptr.
  const snapshots::TensorRecord* OnlyTensorOf(const models::ParameterInfo& parameter) const;

  const snapshots::Snapshot& snapshot_;
  int64_t tensor_ranks_;
  std::map<std::string, models::SplitParameter> split_;
  bool averages_;
};

// Throws a UserError that names the snapshot and the tensor.
[[noreturn]] void FailTensor(const snapshots::Snapshot& snapshot, const std::string& name,
                             const std::string& reason);

// The snapshot file's type for a tensor of type `dtype` in the arena.
formats::TensorType TensorTypeOf(graph::DType dtype);

// EncodingOf: the 8-bit encoding of a moment. IsCoded: whether the tensor holds such 8-bit codes,
// whose scales another tensor holds.
const ops::Encoding& EncodingOf(const snapshots::TensorRecord& record);
bool IsCoded(const snapshots::TensorRecord& record);

}  // namespace plimsoll::trainer
