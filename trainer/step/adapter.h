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
// UserError (lora.init_from) when the folder holds no adapter that can be read.
void ResolveAdapter(config::RunConfig& config);

// Adds to lora.modules_to_save what would start afresh in the model: it is trained, and stored with
// the adapter. UserError (lora.modules_to_save) when that is impossible.
void AddFreshModules(config::RunConfig& config, const models::Model& model);

// Not enabled unless the run has adapters. UserError (lora.targets, lora.modules_to_save) when the
// names match no layer or module.
adapters::Lora LoraFrom(const config::RunConfig& config, const models::Model& model);

// Sets the adapters that training begins with: from lora.init_from, or else by InitializeAdapter
// with model.seed. `fresh`: parameters that have begun afresh, which lora.init_from may lack.
void StartAdapter(Session& session, const models::Model& model, const config::RunConfig& config,
                  std::span<const std::string> fresh);

// UserError when `checksum`, of the base that the adapter or snapshot `adapter` was trained over,
// is another than that of the weights in the folder `base` (models::WeightsChecksum). Empty:
// unknown.
void RequireBase(const std::string& checksum, const std::string& adapter, const std::string& base);

// UserError when the adapter or snapshot `adapter` was trained over weights that began at random:
// no file has them.
void RequireStoredModel(const config::RunConfig& config, const std::string& adapter);

// Sets initial values that depend on seed and name alone, with which the model computes the same as
// without adapters. This and LoadAdapter do nothing when the session has no adapters.
void InitializeAdapter(Session& session, uint64_t seed);
// From a folder in PEFT's format (adapters/peft.h).
void LoadAdapter(Session& session, const models::Model& model, const std::string& folder,
                 std::span<const std::string> optional = {});
// All ranks call; the rank with `writes` writes.
void SaveAdapter(Session& session, const models::Model& model, const adapters::Base& base,
                 const std::string& folder, bool writes);

}  // namespace plimsoll::trainer
