// PEFT's modules_to_save: modules of the model that are trained in full next to the adapters, and
// are stored with the adapters. A newly initialised head has to be one of these modules: no other
// file has its weights.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/model.h"

namespace plimsoll::adapters {

// The model's parameters in the modules that `names` select, in the model's order. A name is a
// module's name in files ("bert.pooler.dense"), the name of a module that contains it ("pooler"),
// the end of such a name, or a pattern of such an end. Throws a UserError without a key if a name
// matches nothing, if it matches only some of several modules that are one weight here, and where
// ModulesOf() throws.
std::vector<models::ParameterInfo> SelectSaved(const models::Model& model,
                                               const std::vector<std::string>& names);

// The names of the modules that hold these parameters and no others, as adapter_config.json lists
// them. A tied head is listed in addition to the token embedding that shares its weight. Throws a
// UserError without a key if no list of modules does so: if a module also contains parameters
// outside `saved`, or if two modules that PEFT cannot tie share a parameter.
std::vector<std::string> ModulesOf(const models::Model& model,
                                   std::span<const models::ParameterInfo> saved);

// Whether one of these parameters is both token embedding and head. PEFT keeps the two as one
// weight if adapter_config.json says ensure_weight_tying.
bool HasTiedHead(const models::Model& model, std::span<const models::ParameterInfo> saved);

}  // namespace plimsoll::adapters
