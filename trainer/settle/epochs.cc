#include "trainer/settle/epochs.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "trainer/config/resolve.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/source_from.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {
namespace {

// A step's samples, as one micro-step of all data ranks for each draw of data.
data::Draws StepOf(const config::RunConfig& config, const models::Model& model, int64_t started) {
  const config::TrainConfig& train = config.train;
  const int64_t ranks = config::DataRanks(config, started);
  int64_t samples = train.micro_batch * train.accumulate * ranks;
  if (train.micro_batch == 0) {  // auto cuts a batch that is given
    samples = train.global_batch ? *train.global_batch
                                 : *train.global_batch_tokens / config.model.sequence();
  }
  return {.batch = samples / ranks,
          .per_step = DrawsOf(model.objectives(), 1),
          .data_rank = 0,
          .data_ranks = ranks};
}

}  // namespace

void CountEpochs(config::Loaded& loaded, int64_t started) {
  config::RunConfig& config = loaded.config;
  const std::string key = config::EpochsKey(config);
  if (key.empty()) return;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const data::Draws step = StepOf(config, *model, started);
  const std::optional<int64_t> samples = SourceFrom(config, *model, step)->epoch_samples();
  if (!samples) {
    throw config.Error(key,
                       "the data has no epochs: samples that are made up never end, and several "
                       "sources have an epoch each; say it in steps");
  }
  config::FollowEpochs(config, *samples, step.samples_per_step(), loaded.warnings);
  loaded.resolved_yaml = config::ToYaml(config);
}

std::string EpochsText(const config::RunConfig& config) {
  const double per_epoch = config.train.steps_per_epoch;
  if (per_epoch == 0) return "";
  return fmt::format("{:.4g} epochs of {:.6g} steps: {} steps",
                     static_cast<double>(config.train.steps) / per_epoch, per_epoch,
                     config.train.steps);
}

}  // namespace plimsoll::trainer
