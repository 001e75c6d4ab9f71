// A run's LoRA adapters: what its configuration asks for, and their numbers to and from a session.
#pragma once

#include <cstdint>
#include <string>

#include "adapters/lora.h"
#include "trainer/config/run_config.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Sets what lora.init_from knows of its adapter and the configuration does not say. UserError
// (lora.init_from) when the folder holds no adapter that can be read.
void ResolveAdapter(config::RunConfig& config);

// Not enabled unless the run has adapters. UserError (lora.targets) where they match nothing.
adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model);

// How training begins: as lora.init_from says, or as InitializeAdapter does with model.seed.
void StartAdapter(Session& session, const config::RunConfig& config);

// Numbers that depend on seed and name alone, with which the model is what it is without adapters.
// Nothing where the session has none; so below.
void InitializeAdapter(Session& session, uint64_t seed);
// From a folder of PEFT's (adapters/peft.h).
void LoadAdapter(Session& session, const std::string& folder);
// All ranks call; the one that `writes` does. `base` is the folder of the model's own weights.
void SaveAdapter(Session& session, const models::Model& model, const std::string& base,
                 const std::string& folder, bool writes);

}  // namespace plimsoll::trainer
