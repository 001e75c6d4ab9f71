// The tensors of a snapshot as wholes: the parts of all tensor ranks that shared one, put together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/sharding.h"
#include "snapshots/snapshot.h"

namespace plimsoll::trainer {

class SavedTensors {
 public:
  // Of a run of `model`. The snapshot must outlive this.
  SavedTensors(const snapshots::Snapshot& snapshot, const models::Model& model);

  int64_t tensor_ranks() const { return tensor_ranks_; }  // that wrote it

  // A part of it, which tells its type; nullptr: there is no such tensor.
  const snapshots::TensorRecord* Find(const std::string& name) const;

  // The bytes of a tensor that is `parameter` or belongs to it; only these are read. UserError when
  // it is damaged, missing or no such tensor.
  std::vector<std::byte> Read(const std::string& name, const std::string& parameter) const;

 private:
  std::vector<std::byte> ReadPart(const snapshots::TensorRecord& record) const;

  const snapshots::Snapshot& snapshot_;
  int64_t tensor_ranks_;
  std::map<std::string, models::SplitParameter> split_;
};

// UserError that names the snapshot and its tensor.
[[noreturn]] void FailTensor(const snapshots::Snapshot& snapshot, const std::string& name,
                             const std::string& reason);

// UserError unless a part of so many elements lies element for element as the parameter's own,
// which scales of 8-bit state don't: then ranks can share it in another way.
void RequireAlike(const snapshots::Snapshot& snapshot, const std::string& name,
                  formats::TensorType type, int64_t elements, const models::SplitParameter& split);

}  // namespace plimsoll::trainer
