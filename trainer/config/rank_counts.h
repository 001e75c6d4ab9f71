// The numbers of ranks along the axes of a run's mesh: from its file, and from the ranks that were
// started.
#pragma once

#include <cstdint>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// The number of ranks per data rank: the product of all axes except data.
int64_t NonDataRanks(const RunConfig& config);

// The value of parallel.data. For auto: the started ranks divided by those of the other axes; one
// until the mesh is known.
int64_t DataRanks(const RunConfig& config, int64_t started);

// UserError (parallel.data, tensor or pipeline) unless the started ranks, or the ranks that an
// option asks for, are as many as those of the file's mesh. The message gives the right mpirun
// command or option.
void RequireStarted(const RunConfig& config, const RankCount& ranks);

}  // namespace plimsoll::config
