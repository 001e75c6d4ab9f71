// `plimsoll export`: writes a run's weights as a Hugging Face folder that transformers loads, or
// its adapter as a folder that PEFT loads.
#pragma once

#include <string>

#include "trainer/save_and_resume/weight_source.h"

namespace plimsoll::trainer {

struct ExportCommand {
  std::string run;             // a run directory, or one snapshot
  std::string to;              // a folder that is empty or does not exist yet
  WeightChoice choice;         // of the run's weights
  std::string dtype = "fp32";  // of the weights in the folder: fp32, bf16, fp16
  std::string tokenizer;       // to write with the weights; empty: the run's
  bool overwrite = false;      // replaces an earlier export in the folder
  bool merge = false;          // merges an adapter into the model's weights
};

// Writes model.safetensors, config.json and the tokenizer's files or, of a model that tells
// pictures apart, preprocessor_config.json; for a run with adapters that are not merged,
// adapter_model.safetensors and adapter_config.json. From a snapshot it reads only the weights, one
// by one, in float32 if the run has them in float32; it uses no device. Prints on stdout what was
// written. UserError when there is no such run, snapshot or tokenizer or the folder is in use,
// before anything is changed; and when a weight is damaged or cannot be written.
void RunExport(const ExportCommand& command);

}  // namespace plimsoll::trainer
