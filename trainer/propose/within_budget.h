// The choices of a run file that the budget's solver makes: how the batch is cut, what is
// recomputed, and what lives on the host.
#pragma once

#include <string>
#include <vector>

#include "trainer/propose/choices.h"
#include "trainer/propose/target.h"

namespace plimsoll::trainer {

// Adds them to the others. Returns what the file is to say of their cost. UserError with
// ExitCode::kBudgetNotMet when no plan fits: it names the smallest one that `plimsoll plan` finds
// for the file with all of these choices left open.
std::vector<std::string> ChooseWithinBudget(const Target& target, Choices& choices);

}  // namespace plimsoll::trainer
