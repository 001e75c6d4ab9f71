// Opens the data of a training run, as the `data:` section says.
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

// Options of token data, for a model with `vocab` tokens.
data::DataOptions DataOptionsFrom(const config::RunConfig& config, int64_t vocab);
data::DataSet DataFrom(const config::RunConfig& config, int64_t vocab);

// Which samples a rank reads, in steps of `per_step` draws; a draw is one micro-batch.
data::Draws DrawsFrom(const config::RunConfig& config, int64_t per_step,
                      const MeshPosition& position);
// Opens the source of training data. Throws a UserError when the data cannot fill a step.
std::unique_ptr<data::Source> SourceFrom(const config::RunConfig& config,
                                         const models::Model& model, const data::Draws& draws);

// The approximate bytes of those files that SourceFrom reads in full. Throws a UserError if no such
// file exists.
int64_t BytesOfData(const config::RunConfig& config, const models::Model& model);
// Throws the errors of SourceFrom and RequireAll that names, headers and the beginnings of files
// reveal. For data that SourceFrom reads in full.
void CheckData(const config::RunConfig& config, const models::Model& model,
               std::span<const graph::Slot> slots);
// Fills in the first samples. Throws a UserError (data.source) when the source cannot fill one of
// the slots.
void RequireAll(const config::RunConfig& config, const data::Source& source,
                std::span<const graph::Slot> slots);
// Opens the samples of evaluations. Throws a UserError when no samples are held out.
std::unique_ptr<data::Source> HeldOutFrom(const config::RunConfig& config,
                                          const data::Source& source);
// The source's warnings, with file and line of their key.
std::vector<std::string> DataWarnings(const config::RunConfig& config, const data::Source& source);
// The key that decides which samples are held out, for messages.
std::string HeldOutKey(const config::RunConfig& config);

// The number of threads that prepare samples ahead (data.workers). 0 means no threads, or a source
// that has no use for threads.
int64_t DataWorkersFrom(const config::RunConfig& config);
// Whether threads could prepare the run's samples.
bool HasDataWorkers(const config::RunConfig& config);

}  // namespace plimsoll::trainer
