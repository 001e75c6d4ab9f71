// The numbers of ranks along the axes of a run's mesh: as its file gives them, and as ranks were
// started.
#pragma once

#include <cstdint>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// The number of ranks along all axes except data, for each data rank.
int64_t NonDataRanks(const RunConfig& config);

// parallel.data; auto takes the started ranks that the other axes leave, or one until the mesh is
// known.
int64_t DataRanks(const RunConfig& config, int64_t started);

// UserError (parallel.data, tensor or pipeline) unless as many ranks were started, or asked for by
// an option, as the file's mesh has; the message gives the mpirun command or option that would do.
void RequireStarted(const RunConfig& config, const RankCount& ranks);

}  // namespace plimsoll::config
