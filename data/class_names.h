// The setting "class_names" of sources with labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"

namespace plimsoll::data {

Setting ClassNamesSetting();

// The names that it gives; empty: none. SettingError unless there is one for each of the model's
// classes (0: the model doesn't say how many).
std::vector<std::string> ClassNamesFrom(const Settings& settings, int64_t classes);

// That data number other classes than a model was trained on, which then tells them apart by wrong
// names; empty: the names are the same, or one of the two has none.
std::string OtherClassesText(std::span<const std::string> model, std::span<const std::string> data);

}  // namespace plimsoll::data
