#include "trainer/resolve/stages_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "adapters/lora_pass.h"
#include "base/amounts.h"
#include "base/error.h"
#include "base/glob.h"
#include "graph/block.h"
#include "graph/tensor_ids.h"
#include "parallel/stage_map.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/linear_layers.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

int64_t BlockCount(const config::RunConfig& config, const models::Model& model) {
  const std::vector<graph::Program> programs = LossPrograms(model, config.model.sequence());
  return graph::Blocks(programs.front()).count();
}

// The numbers of blocks that parallel.stages gives.
std::vector<int64_t> GivenStages(const config::RunConfig& config, int64_t blocks) {
  std::vector<int64_t> stages;
  for (const double count : config.parallel.stages) {
    if (count < 1 || count != std::floor(count) || count > static_cast<double>(blocks)) {
      throw config.Error("parallel.stages",
                         fmt::format("a stage has a whole number of the model's {}, not {}",
                                     Counted(blocks, "block"), count));
    }
    stages.push_back(static_cast<int64_t>(count));
  }
  if (std::ssize(stages) != config.parallel.pipeline) {
    throw config.Error("parallel.stages",
                       fmt::format("gives a number of blocks for {} of {}", stages.size(),
                                   Counted(config.parallel.pipeline, "stage")));
  }
  const int64_t sum = std::accumulate(stages.begin(), stages.end(), int64_t{0});
  if (sum != blocks) {
    throw config.Error("parallel.stages",
                       fmt::format("{} are {}, but the model has {}", fmt::join(stages, " + "),
                                   Counted(sum, "block"), blocks));
  }
  return stages;
}

// Throws a UserError if a stage would need more than one activation from another stage.
void RequireStages(const config::RunConfig& config, const models::Model& model,
                   const std::vector<int64_t>& stages) {
  try {
    for (const graph::Program& program : LossPrograms(model, config.model.sequence())) {
      (void)parallel::StageMap(program, stages);
    }
  } catch (const UserError& error) {
    throw config.Error("parallel.pipeline", fmt::format("{}; use 1", error.what()));
  }
}

}  // namespace

parallel::ModelCosts CostsOfBlocks(const config::RunConfig& config, const models::Model& model) {
  // A micro-batch runs through all stages, on one of the data ranks.
  config::RunConfig whole = config;
  whole.parallel.pipeline = 1;
  whole.parallel.stages.clear();
  whole.parallel.data = 1;
  whole.parallel.zero = 0;
  whole.train.SetMicroSteps(config.train.micro_batch, 1);
  whole.train.eval_every = whole.train.sample_every = 0;
  CompileOptions options = CompileFrom(whole, model);
  options.draft = true;
  options.stop_after.clear();
  options.dump_directory.clear();
  const CompiledStep step = Compile(model, options);
  const graph::Program& program = *step.programs.front();
  const std::vector<double> seconds = BuiltInCost(whole).NodeSeconds(program);
  const graph::Blocks blocks(program);
  parallel::ModelCosts costs;
  costs.blocks.resize(static_cast<size_t>(blocks.count()));
  bool inside = false, inside_backward = false;  // whether a block has begun
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const graph::Phase phase = program.nodes()[n].phase;
    if (phase == graph::Phase::kUpdate) continue;
    const int block = blocks.Of(n);
    if (block != graph::kNoBlock) {
      costs.blocks[static_cast<size_t>(block)] += seconds[n];
      (phase == graph::Phase::kForward ? inside : inside_backward) = true;
    } else {
      (inside && !inside_backward ? costs.after : costs.before) += seconds[n];
    }
  }
  return costs;
}

std::vector<int64_t> StagesFrom(const config::RunConfig& config, const models::Model& model) {
  const int64_t stages = config.parallel.pipeline;
  if (stages == 1) return {};
  if (model.objectives().size() > 1 || !model.states().empty()) {
    throw config.Error(
        "parallel.pipeline",
        fmt::format("a model of family {} {}, which stages cannot share; use 1", model.family(),
                    model.states().empty() ? "has several losses" : "has running statistics"));
  }
  const int64_t blocks = BlockCount(config, model);
  if (blocks < stages) {
    throw config.Error(
        "parallel.pipeline",
        fmt::format("{} stages need a block each, and the model has {}", stages, blocks));
  }
  std::vector<int64_t> made = config.parallel.stages.empty()
                                  ? parallel::BalanceStages(CostsOfBlocks(config, model), stages)
                                  : GivenStages(config, blocks);
  RequireStages(config, model, made);
  return made;
}

void RequireTrainedStages(const config::RunConfig& config, const models::Model& model,
                          const CompileOptions& options) {
  if (options.stages.empty() || options.frozen.empty()) return;
  for (graph::Program& program : LossPrograms(model, config.model.sequence())) {
    adapters::LoraPass(options.lora, /*training=*/false).Run(program);
    const parallel::StageMap stages(program, options.stages);
    const bool trains = std::ranges::any_of(graph::TensorIds(program), [&](graph::TensorId id) {
      const graph::Tensor& tensor = program.tensor(id);
      const int64_t stage = stages.OfTensor(id);
      return tensor.role == graph::Role::kParameter &&
             (stage == 0 || stage == parallel::StageMap::kEnds) &&
             !MatchesAnyGlob(options.frozen, tensor.name);
    });
    if (trains) continue;
    throw config.Error(
        options.lora.enabled() ? "lora.targets" : "train.freeze",
        fmt::format("leaves the first of {} pipeline stages nothing to train, and so "
                    "no gradient to wait for; train a parameter of it, or use "
                    "parallel.pipeline: 1",
                    options.stages.size()));
  }
}

void ChooseStages(config::RunConfig& config, const models::Model& model) {
  const std::vector<int64_t> stages = StagesFrom(config, model);
  config.parallel.stages.assign(stages.begin(), stages.end());
}

}  // namespace plimsoll::trainer
