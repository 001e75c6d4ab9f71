#include "base/settings.h"

#include "base/error.h"

namespace plimsoll {

template <typename T>
const T& Settings::As(std::string_view name, const char* type) const {
  const T* const value = std::get_if<T>(&Get(name));
  if (value == nullptr) {
    throw InternalError("setting '" + std::string(name) + "' is not set, or no " + type);
  }
  return *value;
}

const SettingValue& Settings::Get(std::string_view name) const {
  static const SettingValue none;
  const auto found = entries_.find(name);
  return found == entries_.end() ? none : found->second.value;
}

bool Settings::Has(std::string_view name) const {
  return !std::holds_alternative<std::monostate>(Get(name));
}

bool Settings::Bool(std::string_view name) const { return As<bool>(name, "bool"); }
int64_t Settings::Int(std::string_view name) const { return As<int64_t>(name, "integer"); }
double Settings::Float(std::string_view name) const { return As<double>(name, "number"); }
const std::string& Settings::Text(std::string_view name) const {
  return As<std::string>(name, "text");
}
const std::vector<std::string>& Settings::List(std::string_view name) const {
  return As<std::vector<std::string>>(name, "list");
}
const std::vector<double>& Settings::Floats(std::string_view name) const {
  return As<std::vector<double>>(name, "list of numbers");
}
int64_t Settings::IntOr(std::string_view name, int64_t fallback) const {
  return Has(name) ? Int(name) : fallback;
}

void Settings::Set(const std::string& name, SettingValue value, std::string place) {
  entries_[name] = {std::move(value), std::move(place)};
}

void Settings::Derive(const std::string& name, SettingValue value) {
  if (!IsGiven(name)) Set(name, std::move(value));
}

bool Settings::IsGiven(std::string_view name) const {
  const auto found = entries_.find(name);
  return found != entries_.end() && !found->second.place.empty();
}

std::string Settings::At(std::string_view name) const {
  return IsGiven(name) ? " (" + entries_.find(name)->second.place + ")" : "";
}

std::vector<std::string> Settings::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

bool Settings::operator==(const Settings& other) const {
  if (entries_.size() != other.entries_.size()) return false;
  for (const auto& [name, entry] : entries_) {
    if (other.Get(name) != entry.value) return false;
  }
  return true;
}

void CompleteSettings(const std::vector<Setting>& rows,
                      const std::function<void(Settings&)>& complete, Settings& settings) {
  for (const Setting& setting : rows) {
    if (settings.Has(setting.name)) continue;
    if (!setting.required.empty()) throw MissingSetting(setting.name, setting.required);
    if (!std::holds_alternative<std::monostate>(setting.default_value)) {
      settings.Set(setting.name, setting.default_value);
    }
  }
  if (complete) complete(settings);
}

}  // namespace plimsoll
