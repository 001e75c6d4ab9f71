// Chooses among a run's weights: those that it wrote at its end, to model/ or adapter/, or those of
// one of its snapshots.
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

// At most one of `step` and `best` is set; without either, the run's last weights are chosen.
struct WeightChoice {
  std::optional<int64_t> step = {};  // the snapshot after that number of steps
  bool best = false;                 // the snapshot of the best evaluation
  bool ema = false;                  // the averaged weights instead of the weights
};

bool IsSnapshot(const std::string& folder);
bool IsRunDirectory(const std::string& folder);

// The folder of the chosen weights in a run directory: a snapshot, model/ or adapter/, or their
// averages; or `path` itself, if it is a snapshot. Throws a UserError if the folder does not exist.
std::string FindWeights(std::string path, const WeightChoice& choice);

// The settings of a snapshot's model, adapters and tokenizer, as values for --set. The data, the
// ranks and the initial adapters need not be available.
std::vector<std::string> ModelSets(const RunRecord& record);

// The model whose weights the snapshot has; `config` is made from ModelSets(). Throws a UserError
// if the model that model.init_from names has changed; for a snapshot of adapters, also if its
// weights have changed.
std::unique_ptr<models::Model> SavedModel(const RunRecord& record, const config::RunConfig& config,
                                          const std::string& snapshot);

}  // namespace plimsoll::trainer
