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

// Why tensor-parallel ranks cannot share the tokens of a micro-step as parallel.sequence asks for;
// empty: they can, or need not.
std::string WhyNoSequence(const config::RunConfig& config, const models::Model& model);
amp::AmpOptions AmpFrom(const config::RunConfig& config);

// Options for training with this config, with programs for evaluation and for samples if it asks
// for them.
CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model);

// A key that asks for something that a pass could not do to the programs.
struct RefusedKey {
  std::string key, why;
};
std::optional<RefusedKey> RefusedKeyOf(const CompiledStep& compiled);  // nothing: all could
std::string Text(const RefusedKey& refused);  // "amp.fp8.recipe: has no effect: …"

// A warning of it, with the key's place; empty: there is nothing to warn of.
std::string RefusalWarning(const config::RunConfig& config, const CompiledStep& compiled);

// The parameters that train.freeze means (frozen_parameters.cc), by the model's names. A pattern
// that matches some of them means these; any other one is matched with the names of a checkpoint's
// tensors, with or without their prefix, and with those of tied copies. UserError for a pattern
// that matches nothing, for tensors that are a part of a parameter alone, and where nothing is left
// to train.
std::vector<std::string> FrozenFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
