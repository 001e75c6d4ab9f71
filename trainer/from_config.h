// A run's configuration in the terms of the parts that it configures.
#pragma once

#include <memory>

#include "models/model.h"
#include "trainer/compile.h"
#include "trainer/config/run_config.h"
#include "trainer/data/dataset.h"

namespace plimsoll::trainer {

// UserErrors name the key, with its file and line.
std::unique_ptr<models::Model> ModelFrom(const config::RunConfig& config);
optim::UpdateOptions UpdateFrom(const config::RunConfig& config);
data::DataSet DataFrom(const config::RunConfig& config, int64_t vocab);

// Threads to compute with: train.threads, or the cores that this process may use.
int ThreadsFrom(const config::RunConfig& config);

// Tokens per training sequence: model.sequence, or the longest that a checkpoint's model allows.
int64_t SequenceFrom(const config::RunConfig& config, const models::Model& model);

// For training with this config; with an evaluation program when `evaluate`, and one for samples
// when the config asks for them.
CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model,
                           bool evaluate);

}  // namespace plimsoll::trainer
