// A training's data, as the `data:` section says.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mesh.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/source.h"

namespace plimsoll::trainer {

// Of token data, for a model with that vocabulary.
data::DataOptions DataOptionsFrom(const config::RunConfig& config, int64_t vocab);
data::DataSet DataFrom(const config::RunConfig& config, int64_t vocab);

// Which samples a rank reads, in a step of so many draws of data.
data::Draws DrawsFrom(const config::RunConfig& config, int64_t per_step,
                      const MeshPosition& position);
// UserError when it cannot fill a step.
std::unique_ptr<data::Source> SourceFrom(const config::RunConfig& config,
                                         const models::Model& model, const data::Draws& draws);

}  // namespace plimsoll::trainer
