// `plimsoll config --for MODEL`: a run file for a model on a device within a budget, with a reason
// for every choice. It runs as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cuda/gpu_report.h"

namespace plimsoll::trainer {

struct ConfigForCommand {
  std::string model;   // a run file, a Hugging Face folder, or the name of a file in configs/models
  std::string device;  // "h200", "cpu" (trainer/resolve/known_gpus.h); empty: memory.device of a
                       // --set, or this machine's
  std::string budget;  // as memory.budget; empty: 90 % of the GPU's memory, 80 % of the machine's
  std::vector<std::string> sets = {};  // "key=value": keys that are not chosen
  int64_t lora_rank = 0;               // of adapters; 0: none, unless the model's file has some
};

// The run file that a name means: the file of that name if there is one, else
// configs/models/NAME.yaml, on disk or as shipped with the program. UserError that lists the known
// names.
std::string FindModelFile(const std::string& name);

// The file's text: it loads as it is, and its plan is within the budget. `gpus` are those of this
// machine. The device determines the precision; what is trained, the batch, steps and rate, unless
// the model's file has them; the budget's solver chooses micro-batch and policy by its built-in
// rates. Prints warnings of `sets`. UserError with ExitCode::kBudgetNotMet
// when no plan fits.
std::string ConfigFor(const ConfigForCommand& command, const runtime::GpuReport& gpus);

}  // namespace plimsoll::trainer
