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

// Takes the settings that the configuration leaves open from the adapter in lora.init_from. Throws
// a UserError (lora.init_from) if the folder holds no readable adapter.
void ResolveAdapter(config::RunConfig& config);

// Throws a UserError (model.init_from) if the folder of the first weights holds an adapter, too,
// that lora.init_from does not name: transformers would put it on.
void RequireAdapterNamed(const config::RunConfig& config);

// Adds the model's modules without stored weights to lora.modules_to_save: these modules are
// trained and stored with the adapter. Throws a UserError (lora.modules_to_save) if that is
// impossible.
void AddFreshModules(config::RunConfig& config, const models::Model& model);

// Returns the adapters' settings, disabled if the run has no adapters. Throws a UserError
// (lora.targets, lora.modules_to_save) if the names match no layer or module.
adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model);

// Sets the adapters' initial weights: loads lora.init_from or, without it, calls InitializeAdapter
// with model.seed. `fresh` names the newly initialized parameters, which lora.init_from may lack.
void StartAdapter(Session& session, const models::Model& model, const config::RunConfig& config,
                  std::span<const std::string> fresh);

// Throws a UserError if the weights in the folder `base` differ in checksum
// (models::WeightsChecksum) from the base weights with which `adapter`, an adapter or snapshot, was
// trained. An empty `checksum` means unknown and passes.
void RequireBase(const std::string& checksum, const std::string& adapter, const std::string& base);

// Throws a UserError if `adapter`, the name of an adapter or a snapshot, was trained with random
// base weights, because no file has these weights.
void RequireStoredModel(const config::RunConfig& config, const std::string& adapter);

// Sets initial values that depend on the seed and the names alone. With these values the model
// computes the same as without adapters. InitializeAdapter and LoadAdapter do nothing if the
// session has no adapters.
void InitializeAdapter(Session& session, uint64_t seed);
// Loads the adapters from a folder in PEFT's format (adapters/peft.h).
void LoadAdapter(Session& session, const models::Model& model, const std::string& folder,
                 std::span<const std::string> optional = {});
// Saves the adapters. All ranks call this; the rank with `writes` writes.
void SaveAdapter(Session& session, const models::Model& model, const adapters::Base& base,
                 const std::string& folder, bool writes);

}  // namespace plimsoll::trainer
