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
// nothing, or where ModulesOf() throws.
std::vector<models::ParameterInfo> SelectSaved(const models::Model& model,
                                               const std::vector<std::string>& names);

// The names of the modules that hold these parameters and no others, as adapter_config.json lists
// them. Throws a UserError without a key where no list of modules does: where a parameter consists
// of several modules, of which `saved` is to have some; where its module contains more than the
// parameters in `saved`; and where a parameter is shared by two modules, as a tied head is.
std::vector<std::string> ModulesOf(const models::Model& model,
                                   std::span<const models::ParameterInfo> saved);

}  // namespace plimsoll::adapters
