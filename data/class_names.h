// The setting "class_names" of data sources with labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"

namespace plimsoll::data {

Setting ClassNamesSetting();

// Returns the names that the setting gives, or none if it is not set. Throws a SettingError if the
// number of names differs from the model's number of classes (0: the model does not fix the
// number).
std::vector<std::string> ClassNamesFrom(const Settings& settings, int64_t classes);

// Returns a warning if the data number their classes differently from the data that the model was
// trained on, so that its predictions would get wrong names. Returns an empty text if the names are
// equal or one side has no names.
std::string OtherClassesText(std::span<const std::string> model, std::span<const std::string> data);

}  // namespace plimsoll::data
