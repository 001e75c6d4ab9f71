#include "trainer/resolve/smallest_stages.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "parallel/stage_balance.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/stages_from.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;

// Finds the smallest plans of the stages of one division after the other.
class DivisionNeeds {
 public:
  DivisionNeeds(const RunConfig& config, const Needs& limits, bool coarse)
      : limits_(limits),
        coarse_(coarse),
        searched_(config.checkpointing.policy == config::CheckpointPolicy::kAuto),
        profile_(ProfileFrom(config)) {}

  SmallestStages Of(const RunConfig& config) {
    const std::vector<double>& stages = config.parallel.stages;
    SmallestStages found;
    found.blocks.assign(stages.begin(), stages.end());
    int64_t first = 0;  // the first block of the stage
    for (int64_t stage = 0; stage < config.parallel.pipeline; ++stage) {
      const int64_t blocks = stages.empty() ? 0 : found.blocks[static_cast<size_t>(stage)];
      const Needs needs = OfStage(config, {stage, first, blocks});
      if (needs.process > found.needs.process) found.largest = stage;
      found.needs.process = std::max(found.needs.process, needs.process);
      found.needs.host = std::max(found.needs.host, needs.host);
      first += blocks;
    }
    return found;
  }

 private:
  using Part = std::tuple<int64_t, int64_t, int64_t>;  // stage, first block, number of blocks

  // Divisions share most of their stages with earlier ones.
  const Needs& OfStage(const RunConfig& config, const Part& part) {
    const auto [known, added] = known_.try_emplace(part);
    if (!added) return known->second;
    StepSolver solver(config,
                      {.built_in_rates = true, .coarse = coarse_, .stage = std::get<0>(part)});
    const memory::ExactPlan& plan =
        *solver.solver()
             .Smallest({profile_.ArenaWithin(limits_.process), limits_.host, profile_})
             .exact;
    // The full search may pass over a plan that the coarse one finds, for a plan that is predicted
    // to be smaller but loses more to gaps between tensors.
    const int64_t margin = coarse_ && searched_ ? plan.needed_bytes / 100 : 0;
    return known->second = {profile_.ProcessBytes(plan.needed_bytes + margin), plan.host_bytes};
  }

  const Needs limits_;
  const bool coarse_, searched_;
  const memory::DeviceProfile profile_;
  std::map<Part, Needs> known_;
};

}  // namespace

SmallestStages SmallestOfStages(RunConfig config, const Needs& limits, bool coarse) {
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const bool divides = config.parallel.pipeline > 1 && config.parallel.stages.empty() &&
                       config.checkpointing.policy == config::CheckpointPolicy::kAuto;
  ChooseStages(config, *model);
  ChooseChannels(config);
  DivisionNeeds needs(config, limits, coarse);
  SmallestStages found = needs.Of(config);
  if (!divides) return found;
  std::optional<parallel::ModelCosts> costs;
  std::vector<int64_t> most = found.blocks;
  SmallestStages last = found;
  while (last.needs.process > limits.process) {
    if (!costs) {
      costs = CostsOfBlocks(config, *model);
      std::ranges::fill(most, std::ssize(costs->blocks));
    }
    // Any division that needs less has fewer blocks on the largest stage.
    const auto at = static_cast<size_t>(last.largest);
    most[at] = last.blocks[at] - 1;
    const std::vector<int64_t> blocks =
        parallel::BalanceStages(*costs, config.parallel.pipeline, most);
    if (blocks.empty()) break;
    config.parallel.stages.assign(blocks.begin(), blocks.end());
    last = needs.Of(config);
    if (last.needs.process < found.needs.process) found = last;
  }
  return found;
}

}  // namespace plimsoll::trainer
