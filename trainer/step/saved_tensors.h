// The tensors of a snapshot as wholes: the parts of all tensor ranks that shared one, put together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "models/model.h"
#include "models/sharding.h"
#include "ops/block_quantization.h"
#include "snapshots/snapshot.h"

namespace plimsoll::trainer {

class SavedTensors {
 public:
  // Of a run of `model` with these adapters, if any. The snapshot must outlive this.
  SavedTensors(const snapshots::Snapshot& snapshot, const models::Model& model,
               const adapters::Lora& lora);

  int64_t tensor_ranks() const { return tensor_ranks_; }  // that wrote it

  // A part of it, which tells its type; nullptr: there is no such tensor.
  const snapshots::TensorRecord* Find(const std::string& name) const;

  // The bytes of a tensor that is `parameter` or belongs to it; only these are read. 8-bit state
  // comes as the float32 numbers that it stands for: the ranks had blocks of their own. UserError
  // when it is damaged, missing or no such tensor.
  std::vector<std::byte> Read(const std::string& name, const std::string& parameter) const;

  // A parameter as float32, put together from what is stored of it. The same errors.
  std::vector<float> ReadParameter(const models::ParameterInfo& parameter) const;

  // A state as a rank begins with it that is none of those which saved it: where each had its own,
  // as the state says (StateInfo::OnOtherRanks). The same errors.
  std::vector<float> ReadState(const models::StateInfo& state) const;

 private:
  std::vector<std::byte> ReadPart(const snapshots::TensorRecord& record) const;
  std::vector<std::byte> ReadNumbers(const snapshots::TensorRecord& record) const;

  const snapshots::Snapshot& snapshot_;
  int64_t tensor_ranks_;
  std::map<std::string, models::SplitParameter> split_;
};

// UserError that names the snapshot and its tensor.
[[noreturn]] void FailTensor(const snapshots::Snapshot& snapshot, const std::string& name,
                             const std::string& reason);

// 8-bit state: the name of its blocks' scales, and the values of its codes.
std::string ScalesOf(const std::string& name);
const ops::BlockQuantizer& QuantizerOf(const std::string& name);

}  // namespace plimsoll::trainer
