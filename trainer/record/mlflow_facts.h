// The facts about a run that MLflow gets in addition to its metrics (log.mlflow).
#pragma once

#include <string>

#include "reports/mlflow_run.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The folder of MLflow's files: named by log.mlflow or MLFLOW_TRACKING_URI, or ./mlruns; empty
// means off. Throws a UserError (log.mlflow) if the setting names a server or a database.
std::string MlflowFolder(const config::RunConfig& config);

// The experiment is MLFLOW_EXPERIMENT_NAME; without it, the name of the folder that contains
// run.dir. Parameters are the keys that apply, written as in a run file.
reports::MlflowFacts MlflowFactsOf(const config::RunConfig& config);

}  // namespace plimsoll::trainer
