#include "data/class_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/amounts.h"
#include "formats/json.h"

namespace plimsoll::data {

Setting ClassNamesSetting() {
  return {.name = "class_names",
          .type = Setting::Type::kStringList,
          .doc = "The names of the classes, in the order of their numbers, for reports.",
          .default_value = std::vector<std::string>()};
}

std::vector<std::string> ClassNamesFrom(const Settings& settings, int64_t classes) {
  const std::vector<std::string>& names = settings.List("class_names");
  if (names.empty() || classes == 0 || std::ssize(names) == classes) return names;
  throw SettingError("class_names",
                     fmt::format("{} for a model that distinguishes {}; give one for "
                                 "each, in the order of their numbers, or set model.classes",
                                 Counted(names.size(), "name"), Counted(classes, "class")));
}

std::string OtherClassesText(std::span<const std::string> model,
                             std::span<const std::string> data) {
  if (model.empty() || data.empty()) return "";
  const auto [a, b] = std::ranges::mismatch(model, data);
  if (a == model.end() || b == data.end()) return "";
  return fmt::format(
      "class {} is {} in the data, and {} where the model was trained: rename one of the two, or "
      "give all names in one order, unless the classifier is to learn other classes",
      a - model.begin(), formats::Printable(*b), formats::Printable(*a));
}

}  // namespace plimsoll::data
