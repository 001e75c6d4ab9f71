// `plimsoll export`: writes a run's weights as a Hugging Face folder that transformers loads, or
// its adapter as a folder that PEFT loads.
#pragma once

#include <string>

#include "trainer/save_and_resume/weight_source.h"

namespace plimsoll::trainer {

struct ExportCommand {
  std::string run;             // a run directory, or one snapshot
  std::string to;              // a folder that is empty or does not exist yet
  WeightChoice choice;         // selects among the run's weights
  std::string dtype = "fp32";  // type of the written weights: fp32, bf16, fp16
  std::string tokenizer;       // tokenizer to write with the weights; empty means the run's
  bool overwrite = false;      // replace an earlier export in the folder
  bool merge = false;          // merge an adapter into the model's weights
};

// Writes model.safetensors, config.json, and the tokenizer's files or, for a model that classifies
// pictures, preprocessor_config.json. For a run with unmerged adapters, writes
// adapter_model.safetensors and adapter_config.json. From a snapshot, only the weights are read,
// one by one, in float32 if the run has them in float32. Uses no device. Prints the written files
// to stdout. Throws a UserError, before anything is changed, if the run, snapshot or tokenizer does
// not exist, or if the folder is in use. Throws a UserError if a weight is damaged or cannot be
// written.
void RunExport(const ExportCommand& command);

}  // namespace plimsoll::trainer
