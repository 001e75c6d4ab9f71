// Keys that others bring with them: families of models those of section `model` (models/family.h),
// sources of data those of section `data` (trainer/data/source.h). Whose they are is what another
// key of the section chooses: `model.family`, `data.source`.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/schema.h"

namespace plimsoll::config {

// Of that section: one key for each name, in an order that keeps that of each owner. What owners
// say differently of it is named with who says it.
std::vector<Key> OwnersKeys(const std::string& section);
std::vector<std::string> OwnersOf(const std::string& section);

// Takes over where keys were given, and fills in what follows. UserError naming key and place.
void CompleteModel(RunConfig& config);
void CompleteSource(RunConfig& config);

// UserError (key, and where it is) of what an owner of the section says.
UserError ErrorOf(const RunConfig& config, const std::string& section, const SettingError& error);

}  // namespace plimsoll::config
