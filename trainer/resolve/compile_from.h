// Translates a run's configuration into options of the program's passes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amp/precision_policy.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// Returns why tensor-parallel ranks cannot shard a micro-step's tokens as parallel.sequence
// requires. Empty if they can, or if parallel.sequence is off.
std::string WhyNoSequence(const config::RunConfig& config, const models::Model& model);
amp::AmpOptions AmpFrom(const config::RunConfig& config);

// Options for training with this config. They include programs for evaluation and for samples if
// the config asks for them.
CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model);

// A key that a pass could not apply to the programs, and the reason.
struct RefusedKey {
  std::string key, why;
};
// The key that a pass refused; nullopt if no key was refused.
std::optional<RefusedKey> RefusedKeyOf(const CompiledStep& compiled);
std::string Text(const RefusedKey& refused);  // "amp.fp8.recipe: has no effect: …"

// A warning about the refused key, with its file and line; empty if no key was refused.
std::string RefusalWarning(const config::RunConfig& config, const CompiledStep& compiled);

// The parameters that train.freeze selects (frozen_parameters.cc), by the model's names. A pattern
// is matched with the model's names first. If it matches none of them, it is matched with the names
// of a checkpoint's tensors, with or without their prefix, and with the names of tied copies.
// Throws a UserError if a pattern matches nothing, if it selects only some of a parameter's
// tensors, or if nothing is left to train.
std::vector<std::string> FrozenFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
