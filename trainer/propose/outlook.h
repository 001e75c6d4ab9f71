// What the run of a starting file takes, and ways to take less: the comments at the file's head.
#pragma once

#include <string>
#include <vector>

#include "memory/solver.h"
#include "trainer/settle/step_solver.h"

namespace plimsoll::trainer {

// Sentences about the solver's candidate, by built-in rates: "Takes 13.6 GiB of the GPU and 110 GiB
// of the host, pinned."; "By built-in rates a step of 2097152 tokens takes about 11 min, 2.97k
// tokens/s." Where a step is long, a smaller batch with its time, and where tensors are on the
// host, what adapters take.
std::vector<std::string> Outlook(StepSolver& solver, const memory::Candidate& candidate,
                                 const memory::Budget& budget);

// "adapters take 6.10 GiB of the GPU with --lora 16", within the budget; empty: the run has
// adapters, its model takes none, or they don't fit.
std::string AdaptersText(const config::RunConfig& config, const memory::Budget& budget);

}  // namespace plimsoll::trainer
