// Reads and writes adapters in the format of PEFT (github.com/huggingface/peft): a folder with
// adapter_config.json and adapter_model.safetensors, in which each module has
// base_model.model.MODULE.lora_A.weight [r,in] and .lora_B.weight [out,r].
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

// What is known of the keys of adapter_config.json.
std::span<const formats::KeyRule> ConfigKeys();

// The content of FOLDER/adapter_config.json. The weights are not read.
struct Settings {
  int64_t rank = 0;
  double alpha = 0;
  bool rslora = false;
  std::vector<std::string> targets;
};
Settings ReadSettings(const std::string& folder);

// Reads A and B of every layer as float32 into the memory that `destination` gives; calls
// `finished` when all of a parameter's elements are there. First checks the settings, and all names
// and shapes: the folder must hold an adapter with these modules, rank and scale.
void ReadAdapter(const std::string& folder, const Lora& lora,
                 FunctionRef<float*(const models::ParameterInfo&)> destination,
                 FunctionRef<void(const models::ParameterInfo&)> finished);

// Writes adapter_model.safetensors and, last, adapter_config.json into `folder`, which is created
// if need be; each file appears whole or not at all. `base` is the model's folder or name. `source`
// returns a parameter's elements, which are rounded to `type` and must stay valid until it is asked
// for the next parameter.
void WriteAdapter(const std::string& folder, const models::Model& model, const Lora& lora,
                  const std::string& base, formats::TensorType type,
                  FunctionRef<const float*(const models::ParameterInfo&)> source);

}  // namespace plimsoll::adapters
