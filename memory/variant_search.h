// The candidates of a step that trains one objective.
#pragma once

#include <cstddef>
#include <vector>

#include "memory/cost_model.h"
#include "memory/solver.h"

namespace plimsoll::memory {

std::vector<Candidate> SearchVariant(const Variant& variant, size_t index, const CostModel& cost,
                                     const SolverOptions& options);

}  // namespace plimsoll::memory
