// The data of a training run, from the `data:` section.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mesh.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/source.h"

namespace plimsoll::trainer {

// Options of token data, for a model with that vocabulary.
data::DataOptions DataOptionsFrom(const config::RunConfig& config, int64_t vocab);
data::DataSet DataFrom(const config::RunConfig& config, int64_t vocab);

// The samples that a rank reads, in steps of `per_step` data draws.
data::Draws DrawsFrom(const config::RunConfig& config, int64_t per_step,
                      const MeshPosition& position);
// UserError when the data cannot fill a step.
std::unique_ptr<data::Source> SourceFrom(const config::RunConfig& config,
                                         const models::Model& model, const data::Draws& draws);

// Threads that prepare samples ahead (data.workers); 0: none do, or the source has no use for them.
int64_t DataWorkersFrom(const config::RunConfig& config);

}  // namespace plimsoll::trainer
