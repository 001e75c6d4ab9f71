// Which weights of a run are meant: those that it wrote at its end, to model/ or adapter/, or those
// of one of its snapshots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/snapshot/run_record.h"

namespace plimsoll::trainer {

// At most one of these; without any, what the run wrote last.
struct WeightChoice {
  std::optional<int64_t> step = {};  // its snapshot after so many steps
  bool best = false;                 // its snapshot of the best evaluation
};

bool IsSnapshot(const std::string& folder);
bool IsRunDirectory(const std::string& folder);

// The folder of a snapshot, of model/ or of adapter/, of a run directory; or `path` itself, if that
// is a snapshot. UserError when there is no such thing.
std::string FindWeights(std::string path, const WeightChoice& choice);

// As --set takes them: what a snapshot says of its run's model, adapters and tokenizer. Its data
// and ranks need not be here, nor what the adapters began with.
std::vector<std::string> ModelSets(const RunRecord& record);

// The model whose weights the snapshot has; `config` is of ModelSets(). UserError when what
// model.init_from names has become another one.
std::unique_ptr<models::Model> SavedModel(const RunRecord& record, const config::RunConfig& config,
                                          const std::string& snapshot);

}  // namespace plimsoll::trainer
