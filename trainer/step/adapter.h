// A run's LoRA adapters: the settings that its configuration gives, and loading and saving of their
// weights in a session.
#pragma once

#include <cstdint>
#include <string>

#include "adapters/lora.h"
#include "trainer/config/run_config.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Takes the settings that the configuration leaves open from the adapter in lora.init_from.
// UserError (lora.init_from) when the folder holds no adapter that can be read.
void ResolveAdapter(config::RunConfig& config);

// Not enabled unless the run has adapters. UserError (lora.targets) when the targets match no
// layer.
adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model);

// Sets the adapters that training begins with: from lora.init_from, or else by InitializeAdapter
// with model.seed.
void StartAdapter(Session& session, const config::RunConfig& config);

// Sets initial values that depend on seed and name alone, with which the model computes the same as
// without adapters. This and LoadAdapter do nothing when the session has no adapters.
void InitializeAdapter(Session& session, uint64_t seed);
// From a folder in PEFT's format (adapters/peft.h).
void LoadAdapter(Session& session, const std::string& folder);
// All ranks call; the rank with `writes` writes. `base` is the folder of the model's own weights.
void SaveAdapter(Session& session, const models::Model& model, const std::string& base,
                 const std::string& folder, bool writes);

}  // namespace plimsoll::trainer
