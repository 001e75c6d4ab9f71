#include "trainer/resolve/epochs.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/amounts.h"
#include "base/error.h"
#include "trainer/config/derived_values.h"
#include "trainer/config/rank_counts.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/source_from.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {
data::Draws StepOf(const config::RunConfig& config, const models::Model& model, int64_t started) {
  const config::TrainConfig& train = config.train;
  const int64_t ranks = config::DataRanks(config, started);
  int64_t samples = train.micro_batch * train.accumulate * ranks;
  // `auto` cuts a given batch into micro-steps, or distributes it to ranks. Until that is done, the
  // number of micro-steps of an update is unknown.
  const bool is_given = train.global_batch || train.global_batch_tokens;
  if (train.micro_batch == 0 || (config.parallel.open_mesh() && is_given)) {
    samples = train.global_batch ? *train.global_batch
                                 : *train.global_batch_tokens / config.model.sequence();
  }
  return {.batch = samples / ranks,
          .per_step = DrawsOf(model.objectives(), 1),
          .data_rank = 0,
          .data_ranks = ranks};
}

void CountEpochsOf(const data::Source& source, const models::Model& model, config::Loaded& loaded,
                   int64_t started) {
  config::RunConfig& config = loaded.config;
  const std::string key = config::EpochsKey(config);
  if (key.empty()) return;
  const std::optional<int64_t> samples = source.epoch_samples();
  if (!samples) {
    throw config.Error(key,
                       "the data has no epochs: samples that are made up never end, and several "
                       "sources have an epoch each; say it in steps");
  }
  config::FollowEpochs(config, *samples, StepOf(config, model, started).samples_per_step(),
                       loaded.warnings);
  loaded.resolved_yaml = config::ToYaml(config);
}

void CountEpochs(config::Loaded& loaded, int64_t started) {
  const config::RunConfig& config = loaded.config;
  if (config::EpochsKey(config).empty()) return;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const auto source = SourceFrom(config, *model, StepOf(config, *model, started));
  CountEpochsOf(*source, *model, loaded, started);
}

std::string EpochsText(const config::RunConfig& config) {
  const double per_epoch = config.train.steps_per_epoch;
  if (per_epoch == 0) return "";
  return fmt::format(
      "{} of {}: {}",
      Counted(fmt::format("{:.4g}", static_cast<double>(config.train.steps) / per_epoch), "epoch"),
      Counted(fmt::format("{:.6g}", per_epoch), "step"), Counted(config.train.steps, "step"));
}

}  // namespace plimsoll::trainer
