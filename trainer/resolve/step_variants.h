// The variants of a run: one for each combination of values of its open knobs. A variant's draft is
// built when it is first needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/step_draft.h"

namespace plimsoll::trainer {

class StepVariants {
 public:
  // `stage`: the stage of a pipeline to draft.
  StepVariants(const config::RunConfig& open, const models::Model& model, ThreadPool& pool,
               int64_t stage = 0);

  size_t size() const { return alternatives_.size(); }
  const config::RunConfig& config(size_t variant) const { return alternatives_[variant]; }
  // The fewest bytes that stay on the device throughout a step; 0 if only one variant exists.
  int64_t LeastDeviceBytes(size_t variant) const { return least_device_bytes_[variant]; }
  // The draft of a variant. Several threads may ask for different drafts at once.
  std::shared_ptr<const StepDraft> Draft(size_t variant) const;
  // Why train.blocks_first, which the run leaves open, cannot be used. Empty if it can be used.
  const std::string& why_not_blocks_first() const { return why_not_blocks_first_; }

 private:
  struct Shared {
    size_t first;  // the variant for which the draft is built
    std::once_flag once = {};
    std::shared_ptr<const StepDraft> draft = nullptr;
  };

  void ShareDrafts();
  void LeaveOutBlocksFirst();
  void FindLeastDeviceBytes(ThreadPool& pool);

  const models::Model& model_;
  int64_t stage_;
  std::vector<config::RunConfig> alternatives_;
  // The draft of each variant. Variants that differ only in how programs are finished share a
  // draft.
  // draft.
  std::vector<std::shared_ptr<Shared>> drafts_;
  std::vector<int64_t> least_device_bytes_;
  std::string why_not_blocks_first_;
};

}  // namespace plimsoll::trainer
