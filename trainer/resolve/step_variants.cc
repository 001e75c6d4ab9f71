#include "trainer/resolve/step_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/parallel_each.h"
#include "trainer/resolve/knobs.h"

namespace plimsoll::trainer {

using config::OnOrAuto;
using config::RunConfig;

StepVariants::StepVariants(const RunConfig& open, const models::Model& model, ThreadPool& pool,
                           int64_t stage)
    : model_(model), stage_(stage), alternatives_(Alternatives(open, model)) {
  ShareDrafts();
  if (open.train.blocks_first == OnOrAuto::kAuto) LeaveOutBlocksFirst();
  FindLeastDeviceBytes(pool);
}

void StepVariants::ShareDrafts() {
  drafts_.clear();
  std::map<std::string, std::shared_ptr<Shared>> known;
  for (size_t i = 0; i < size(); ++i) {
    std::shared_ptr<Shared>& shared = known[ValuesText(alternatives_[i], Reach::kDraft)];
    if (!shared) shared = std::make_shared<Shared>(i);
    drafts_.push_back(shared);
  }
}

std::shared_ptr<const StepDraft> StepVariants::Draft(size_t variant) const {
  Shared& shared = *drafts_[variant];
  std::call_once(shared.once, [&] {
    shared.draft = std::make_shared<StepDraft>(alternatives_[shared.first], model_, stage_);
  });
  if (variant == shared.first) return shared.draft;
  return std::make_shared<StepDraft>(*shared.draft, alternatives_[variant], model_);
}

// Omits variants with blocks first if that order is impossible, or if one program of all
// micro-steps would take too long to plan.
void StepVariants::LeaveOutBlocksFirst() {
  constexpr int64_t kMostNodes = 12'000;
  const auto joined = [](const RunConfig& made) {
    return made.train.blocks_first == OnOrAuto::kOn;
  };
  const auto first = std::ranges::find_if(alternatives_, joined);
  if (first == alternatives_.end()) return;
  const auto draft = Draft(static_cast<size_t>(first - alternatives_.begin()));
  int64_t nodes = 0;
  for (const memory::StepProgram& part : draft->programs()) {
    nodes += part.times * static_cast<int64_t>(part.program->nodes().size());
  }
  why_not_blocks_first_ = nodes > kMostNodes
                              ? fmt::format("a program of {} micro-steps would be too long to plan",
                                            first->train.accumulate)
                              : draft->WhyNotBlocksFirst();
  if (why_not_blocks_first_.empty()) return;
  std::erase_if(alternatives_, joined);
  ShareDrafts();
}

// Alternatives with equal values from kState on have the same bytes on the device throughout a
// step. The one with the shortest draft measures them for all.
void StepVariants::FindLeastDeviceBytes(ThreadPool& pool) {
  least_device_bytes_.assign(size(), 0);
  if (size() == 1) return;
  std::map<std::string, std::vector<size_t>> by_state;
  for (size_t i = 0; i < size(); ++i)
    by_state[ValuesText(alternatives_[i], Reach::kState)].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (auto& [text, group] : by_state) groups.push_back(std::move(group));
  ParallelEach(pool, groups.size(), [&](size_t i) {
    const size_t shortest = *std::ranges::min_element(
        groups[i], {}, [&](size_t variant) { return alternatives_[variant].train.accumulate; });
    const int64_t bytes = Draft(shortest)->OnDevice().all;
    for (const size_t variant : groups[i]) least_device_bytes_[variant] = bytes;
  });
}

}  // namespace plimsoll::trainer
