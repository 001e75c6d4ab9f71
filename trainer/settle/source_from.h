// The data of a training run, from the `data:` section.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/mesh.h"
#include "data/source.h"
#include "data/tokens/dataset.h"
#include "graph/slot.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

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

// About how many bytes of files it reads in full. UserError where there are none.
int64_t BytesOfData(const config::RunConfig& config, const models::Model& model);
// Throws what SourceFrom and RequireAll would throw, as far as names, headers and the beginnings of
// files show it. Of data that SourceFrom reads in full.
void CheckData(const config::RunConfig& config, const models::Model& model,
               std::span<const graph::Slot> slots);
// Fills in the first samples. UserError (data.source) when the source cannot fill one of the slots.
void RequireAll(const config::RunConfig& config, const data::Source& source,
                std::span<const graph::Slot> slots);
// The samples of evaluations. UserError when there are none.
std::unique_ptr<data::Source> HeldOutFrom(const config::RunConfig& config,
                                          const data::Source& source);
// A warning of each key that has no effect with these data, with its place.
std::vector<std::string> UnusedKeys(const config::RunConfig& config, const data::Source& source);
// The key that says what is held out, for messages.
std::string HeldOutKey(const config::RunConfig& config);

// Threads that prepare samples ahead (data.workers); 0: none do, or the source has no use for them.
int64_t DataWorkersFrom(const config::RunConfig& config);
bool HasDataWorkers(const config::RunConfig& config);  // could threads prepare its samples?

}  // namespace plimsoll::trainer
