// The candidates of one variant: steps 1 to 3 of memory/solver.h.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/cost_model.h"
#include "memory/solver.h"

namespace plimsoll::memory {

// By the plan that keeps everything.
VariantBounds BoundsOf(const Variant& variant, const CostModel& cost, const SolverOptions& options);

// `index` is stored in the candidates as their variant. Candidates that another beats in predicted
// seconds and peak are left out, except named policies. Where parameters travel beside the
// computation, seconds are no sum over blocks: there candidates are fewer, and their programs'.
std::vector<Candidate> FindCandidates(const Variant& variant, size_t index, const CostModel& cost,
                                      const SolverOptions& options);

}  // namespace plimsoll::memory
