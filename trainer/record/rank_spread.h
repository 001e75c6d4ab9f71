// The differences between the ranks of a run.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/record/energy_windows.h"
#include "trainer/resolve/ranks.h"

namespace plimsoll::trainer {

struct RankSpread {
  double fastest_seconds = 0, slowest_seconds = 0;  // times of a step
  int slowest = 0;                                  // the number of the slowest rank
  int64_t least_bytes = 0, most_bytes = 0;          // memory of a rank's process on its device
  std::optional<Energy> energy = {};                // the sum over all ranks, if all have one
};

// Compares the ranks' values. Each rank passes its own values; all ranks call this.
RankSpread SpreadOver(Ranks& ranks, double step_seconds, int64_t bytes,
                      const std::optional<Energy>& energy);

}  // namespace plimsoll::trainer
