// Reads and writes adapters in the format of PEFT (github.com/huggingface/peft): a folder with
// adapter_config.json and adapter_model.safetensors, in which each adapted module has
// base_model.model.MODULE.lora_A.weight [r,in] and .lora_B.weight [out,r], and each module of
// modules_to_save its own tensors, base_model.model.MODULE.weight as the model's files have it.
//
// A folder that asks for something a Lora cannot express is refused; nothing is ignored. Errors
// are UserErrors naming the file and the key or tensor.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/function_ref.h"
#include "formats/key_rules.h"
#include "formats/safetensors.h"

namespace plimsoll::adapters {

inline constexpr const char* kConfigFile = "adapter_config.json";

// The rules for the keys of adapter_config.json: which are read, ignored or refused.
std::span<const formats::KeyRule> ConfigKeys();

// The content of FOLDER/adapter_config.json. Of the weights file, at most the tensors' names are
// read.
struct Settings {
  int64_t rank = 0;
  double alpha = 0;
  bool rslora = false;
  double dropout = 0;
  std::vector<std::string> targets;
  // PEFT's modules_to_save, without the two names that PEFT adds for heads of classifiers
  // ("classifier", "score") where the folder holds no such module.
  std::vector<std::string> modules_to_save;
  bool ties = false;  // ensure_weight_tying: a tied head in modules_to_save stays tied
};
Settings ReadSettings(const std::string& folder);

// Reads TrainedParameters() as float32 into the memory that `destination` gives. Calls `finished`
// when all of a parameter's elements are read. First checks the settings, and all names and shapes:
// the folder must hold an adapter with these modules, rank and scale. Parameters of Lora::saved
// that `optional` names may be missing from the folder; they are not read then.
void ReadAdapter(const std::string& folder, const models::Model& model, const Lora& lora,
                 FunctionRef<float*(const models::ParameterInfo&)> destination,
                 FunctionRef<void(const models::ParameterInfo&)> finished,
                 std::span<const std::string> optional = {});

// The base model of an adapter.
struct Base {
  std::string folder;    // folder, or a name on a hub
  std::string checksum;  // models::WeightsChecksum of the base's weights; empty: unknown
};
// The base's checksum and the names of the model's classes, as WriteAdapter stored them in the
// folder's weights file. Empty: another program wrote the file, or the model has no classes.
std::string BaseChecksumOf(const std::string& folder);
std::vector<std::string> ClassNamesOf(const std::string& folder);

// Writes adapter_model.safetensors and, last, adapter_config.json into `folder`, which is created
// if need be. Each file appears complete or not at all. `source` returns the elements of a
// parameter of TrainedParameters(), which are rounded to `type`. They must stay valid until
// `source` is asked for the next parameter.
void WriteAdapter(const std::string& folder, const models::Model& model, const Lora& lora,
                  const Base& base, formats::TensorType type,
                  FunctionRef<const float*(const models::ParameterInfo&)> source);

}  // namespace plimsoll::adapters
