// PEFT's modules_to_save: modules of the model that are trained in full next to the adapters, and
// are stored with them. A head that starts afresh has to be one of them: no other file has it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/model.h"

namespace plimsoll::adapters {

// The model's parameters in the modules that `names` select, in the model's order. A name is that
// of a module in files ("bert.pooler.dense"), of a module that contains it ("pooler"), the end of
// such a name, or a pattern of such an end. Throws a UserError without a key on a name that matches
// nothing, on some of several modules that are one weight here, and where ModulesOf() throws.
std::vector<models::ParameterInfo> SelectSaved(const models::Model& model,
                                               const std::vector<std::string>& names);

// The names of the modules that hold these parameters and no others, as adapter_config.json lists
// them; a tied head is named besides the token embedding that it is. Throws a UserError without a
// key where no list of modules does: where a module contains more than parameters in `saved`, and
// where a parameter is shared by two modules that PEFT cannot tie.
std::vector<std::string> ModulesOf(const models::Model& model,
                                   std::span<const models::ParameterInfo> saved);

// Whether one of these parameters is both token embedding and head. PEFT keeps them one weight if
// adapter_config.json says ensure_weight_tying.
bool HasTiedHead(const models::Model& model, std::span<const models::ParameterInfo> saved);

}  // namespace plimsoll::adapters
