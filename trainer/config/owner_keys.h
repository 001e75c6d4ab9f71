// Keys that other libraries register: model families register keys of section `model`
// (models/family.h), data sources keys of section `data` (data/source.h). Another key of the
// section chooses the owner: `model.family` or `data.source`.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/schema.h"

namespace plimsoll::config {

// The owners' keys of a section: one key for each name, in an order that keeps each owner's order.
// If owners describe a key differently, each description is named with its owners.
std::vector<Key> OwnersKeys(const std::string& section);
std::vector<std::string> OwnersOf(const std::string& section);
// The default that an owner declares for a key of its section, in Markdown; empty: it declares
// none.
std::string OwnersDefault(const Key& key, const std::string& owner);

// Copies the places of the given keys into the owner's settings, and derives open values. Throws a
// UserError that names key and place.
void CompleteModel(RunConfig& config);
void CompleteSource(RunConfig& config);

// Whether samples are made up, so that a model learns nothing from them.
bool MakesUpData(const RunConfig& config);

// Turns a setting error of an owner into a UserError with the key and its place.
UserError ErrorOf(const RunConfig& config, const std::string& section, const SettingError& error);

}  // namespace plimsoll::config
