// The choice among a run's weights: those that it wrote at its end, to model/ or adapter/, or those
// of one of its snapshots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

// At most one of `step` and `best` is set; without any, the run's last weights are meant.
struct WeightChoice {
  std::optional<int64_t> step = {};  // the snapshot after so many steps
  bool best = false;                 // the snapshot of the best evaluation
  bool ema = false;                  // the averages of the weights instead of the weights
};

bool IsSnapshot(const std::string& folder);
bool IsRunDirectory(const std::string& folder);

// The folder of a snapshot, of model/ or adapter/, or of these with averages, in a run directory;
// or `path` itself, if it is a snapshot. UserError when there is no such folder.
std::string FindWeights(std::string path, const WeightChoice& choice);

// The settings of a snapshot's model, adapters and tokenizer, in the form that --set takes. Neither
// its data and ranks nor the initial adapters need to be available.
std::vector<std::string> ModelSets(const RunRecord& record);

// The model whose weights the snapshot has; `config` is made from ModelSets(). UserError when the
// model that model.init_from names has changed, or its weights where the snapshot has adapters.
std::unique_ptr<models::Model> SavedModel(const RunRecord& record, const config::RunConfig& config,
                                          const std::string& snapshot);

}  // namespace plimsoll::trainer
