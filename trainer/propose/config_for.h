// `plimsoll config --for MODEL`: a run file for a model on a device within a budget, with a reason
// for every choice. It runs as it is.
#pragma once

#include <string>

#include "runtime/cuda/gpu_report.h"
#include "trainer/propose/base.h"

namespace plimsoll::trainer {

// The file's text: it loads as it is, and its plan is within the budget. `gpus` are those of this
// machine. The device determines the precision; what is trained, the batch, steps and rate, unless
// the model's file has them; the budget's solver chooses micro-batch and policy by its built-in
// rates. Prints warnings of `sets`. UserError with ExitCode::kBudgetNotMet
// when no plan fits.
std::string ConfigFor(const ConfigForCommand& command, const runtime::GpuReport& gpus);

}  // namespace plimsoll::trainer
