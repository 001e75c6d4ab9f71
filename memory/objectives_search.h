// The candidates of a step that trains several objectives.
#pragma once

#include <cstddef>
#include <vector>

#include "memory/candidates.h"

namespace plimsoll::memory {

// Searches a variant with several bases: each base by itself, then all together.
std::vector<Candidate> SearchObjectives(const Variant& variant, size_t index, const CostModel& cost,
                                        const SolverOptions& options);

}  // namespace plimsoll::memory
