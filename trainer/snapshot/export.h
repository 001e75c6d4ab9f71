// `plimsoll export`: a run's weights as a Hugging Face folder, which transformers loads, or its
// adapter as one that PEFT loads.
#pragma once

#include <string>

#include "trainer/snapshot/weight_source.h"

namespace plimsoll::trainer {

struct ExportCommand {
  std::string run;             // a run directory, or one snapshot
  std::string to;              // a folder that is not there or empty
  WeightChoice choice;         // of what the run has left
  std::string dtype = "fp32";  // of the weights in the folder: fp32, bf16, fp16
  std::string tokenizer;       // that goes with them; empty: the run's
  bool overwrite = false;      // what an export has left in the folder
  bool merge = false;          // an adapter into the model's weights
};

// Writes model.safetensors, config.json and the tokenizer's files, or adapter_model.safetensors and
// adapter_config.json of a run with adapters, unless they are merged. From a snapshot the weights
// are read one by one, in float32 where the run has them so, and nothing else of it; no device is
// used. Says on stdout what was written. UserError when there is no such run, snapshot or tokenizer
// or the folder is in use, before anything is touched; and when a weight is damaged or cannot be
// written.
void RunExport(const ExportCommand& command);

}  // namespace plimsoll::trainer
