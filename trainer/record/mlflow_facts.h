// What MLflow is told of a run besides its metrics (log.mlflow).
#pragma once

#include <string>

#include "reports/mlflow_run.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The folder of MLflow's files: the one that log.mlflow names, or that of MLFLOW_TRACKING_URI, or
// ./mlruns; empty: off. UserError (log.mlflow) where it is a server or a database.
std::string MlflowFolder(const config::RunConfig& config);

// The experiment is the one of MLFLOW_EXPERIMENT_NAME, or called like the folder in which run.dir
// lies. Parameters are the keys that apply, as a run file says them.
reports::MlflowFacts MlflowFactsOf(const config::RunConfig& config);

}  // namespace plimsoll::trainer
