// A run's LoRA adapters: the settings that its configuration gives, and loading and saving of their
// weights in a session.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "adapters/lora.h"
#include "adapters/peft.h"
#include "trainer/config/run_config.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Takes the settings that the configuration leaves open from the adapter in lora.init_from.
// UserError (lora.init_from) if the folder holds no readable adapter.
void ResolveAdapter(config::RunConfig& config);

// Adds the model's modules without stored weights to lora.modules_to_save: they are trained and
// stored with the adapter. UserError (lora.modules_to_save) if that is impossible.
void AddFreshModules(config::RunConfig& config, const models::Model& model);

// Returns the adapters' settings; they are not enabled unless the run has adapters. UserError
// (lora.targets, lora.modules_to_save) if the names match no layer or module.
adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model);

// Sets the initial weights of the adapters: from lora.init_from, or else by InitializeAdapter with
// model.seed. `fresh`: newly initialized parameters, which lora.init_from may lack.
void StartAdapter(Session& session, const models::Model& model, const config::RunConfig& config,
                  std::span<const std::string> fresh);

// UserError if the weights in the folder `base` do not have the checksum (models::WeightsChecksum)
// of the base that `adapter`, an adapter or snapshot, was trained with. An empty `checksum` is
// unknown and passes.
void RequireBase(const std::string& checksum, const std::string& adapter, const std::string& base);

// UserError if the base weights of `adapter`, an adapter or snapshot, were random: then no file has
// them.
void RequireStoredModel(const config::RunConfig& config, const std::string& adapter);

// Sets initial values that depend on seed and name alone. With them the model computes the same as
// without adapters. InitializeAdapter and LoadAdapter do nothing if the session has no adapters.
void InitializeAdapter(Session& session, uint64_t seed);
// Loads the adapters from a folder in PEFT's format (adapters/peft.h).
void LoadAdapter(Session& session, const models::Model& model, const std::string& folder,
                 std::span<const std::string> optional = {});
// Saves the adapters. All ranks call this; the rank with `writes` writes.
void SaveAdapter(Session& session, const models::Model& model, const adapters::Base& base,
                 const std::string& folder, bool writes);

}  // namespace plimsoll::trainer
