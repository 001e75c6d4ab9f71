#include "models/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace plimsoll::models {
namespace {

std::vector<Family>& Registry() {
  static std::vector<Family> families;
  return families;
}

// Whether two families' settings of the same name agree, as they must: a run file is parsed before
// its family is known.
bool MeanTheSame(const Setting& a, const Setting& b) {
  return a.type == b.type && a.choices == b.choices && a.min == b.min && a.max == b.max &&
         a.above_min == b.above_min && a.below_max == b.below_max;
}

void RequireSameMeaning(const Family& family, const Family& other) {
  for (const Setting& setting : family.settings) {
    const auto known = std::ranges::find(other.settings, setting.name, &Setting::name);
    if (known == other.settings.end() || MeanTheSame(setting, *known)) continue;
    throw InternalError(fmt::format("families {} and {} have other types or ranges of '{}'",
                                    family.name, other.name, setting.name));
  }
}

}  // namespace

FamilyRegistration::FamilyRegistration(Family family) {
  std::vector<Family>& families = Registry();
  for (const Family& other : families) {
    if (other.name == family.name) {
      throw InternalError(fmt::format("two families are called '{}'", family.name));
    }
    RequireSameMeaning(family, other);
  }
  const auto behind = std::ranges::upper_bound(families, family.name, {}, &Family::name);
  families.insert(behind, std::move(family));
}

const std::vector<Family>& Families() { return Registry(); }

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (const Family& family : Families()) names.push_back(family.name);
  return names;
}

const Family* FindFamily(std::string_view name) {
  const auto found = std::ranges::find(Families(), name, &Family::name);
  return found == Families().end() ? nullptr : &*found;
}

void Complete(const Family& family, Settings& settings) {
  CompleteSettings(family.settings, family.complete, settings);
}

std::unique_ptr<Model> MakeModel(const Family& family, const Settings& settings) {
  return WithParameters(family.make(settings));
}

}  // namespace plimsoll::models
