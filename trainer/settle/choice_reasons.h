// Why the solver chose what it chose besides activations.
#pragma once

#include <string>
#include <vector>

#include "trainer/settle/step_solver.h"

namespace plimsoll::trainer {

// A sentence for each key of trainer/settle/knobs.h that the run leaves open and, with
// `used_only`, the plan uses: "memory.weights: host, because with device the fastest plan that fits
// takes 812.3 ms"; and one for the number of blocks, where the solver chose it. `chosen` is the
// fastest candidate within the budget.
std::vector<std::string> ChoiceReasons(StepSolver& solver, const memory::Candidate& chosen,
                                       const memory::Budget& budget, bool used_only);

}  // namespace plimsoll::trainer
