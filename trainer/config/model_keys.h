// The keys of section `model` that families of models bring with them (models/family.h).
#pragma once

#include <vector>

#include "trainer/config/schema.h"

namespace plimsoll::config {

// One for each name, in an order that keeps that of each family. Families that say different things
// of it are named with what they say.
std::vector<Key> KeysOfFamilies();

// Takes over where keys were given, and fills in what follows. UserError naming key and place.
void CompleteModel(RunConfig& config);

// UserError (`key`, and where it is) of what a family says.
UserError ErrorOf(const RunConfig& config, const SettingError& error);

}  // namespace plimsoll::config
