// What a run file to start from begins with: the model's file, or one for a folder's weights, with
// what somebody asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/load.h"

namespace plimsoll::trainer {

struct ConfigForCommand {
  std::string model;   // a run file, a Hugging Face folder, or the name of a file in configs/models
  std::string device;  // "h200", "cpu" (trainer/settle/known_gpus.h); empty: memory.device of a
                       // --set, or this machine's
  std::string budget;  // as memory.budget; empty: 90 % of the GPU's memory, 80 % of the machine's
  std::vector<std::string> sets = {};  // "key=value": keys that are not chosen
  int64_t lora_rank = 0;               // of adapters; 0: none, unless the model's file has some
};

// Whether a key is one of `sets`; the key of such a "key=value"; whether these name data of
// somebody's own.
bool IsSet(const ConfigForCommand& command, const std::string& key);
std::string KeyOf(const std::string& set);
bool NamesData(const ConfigForCommand& command, const config::RunConfig& config);

// The tokenizer that a folder of weights brings; empty: it brings none.
std::string TokenizerOf(const std::string& model);

// The run file that a name means: the file of that name if there is one, else
// configs/models/NAME.yaml, on disk or as shipped with the program. UserError that lists the known
// names.
std::string FindModelFile(const std::string& name);

// Loads it: of data that somebody names the source that has their keys, as the data are; of a
// folder samples of a usual length, made up if no data are named. Warnings are also those of the
// data. Throws what training throws.
config::Loaded LoadBase(const ConfigForCommand& command);

}  // namespace plimsoll::trainer
