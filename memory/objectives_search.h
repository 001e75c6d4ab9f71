// The candidates of a step that trains several objectives.
#pragma once

#include <cstddef>
#include <vector>

#include "memory/cost_model.h"
#include "memory/solver.h"

namespace plimsoll::memory {

// Searches each base of the variant by itself, then combines for every peak the fastest candidates
// within it. `index` is stored in the candidates as their variant.
std::vector<Candidate> SearchObjectives(const Variant& variant, size_t index, const CostModel& cost,
                                        const SolverOptions& options);

}  // namespace plimsoll::memory
