#include "base/settings.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

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

namespace {

std::string OutOfRange(const Setting& setting, double number) {
  using Float32 = std::numeric_limits<float>;
  const bool low = setting.above_min ? number <= setting.min : number < setting.min;
  const bool high = setting.below_max ? number >= setting.max : number > setting.max;
  if (low || high || std::isnan(number)) {
    return fmt::format("{} is out of range; it must be {}{} and {}{}", number,
                       setting.above_min ? "above " : "at least ", setting.min,
                       setting.below_max ? "below " : "at most ", setting.max);
  }
  const double size = std::abs(number);
  if ((size > 0 && size < Float32::min()) || size > Float32::max()) {
    return fmt::format("{} is too {} for float32", number, size > 1 ? "large" : "small");
  }
  return "";
}

}  // namespace

std::string OutOfRange(const Setting& setting, const SettingValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return OutOfRange(setting, static_cast<double>(*integer));
  }
  if (const auto* number = std::get_if<double>(&value)) return OutOfRange(setting, *number);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    for (const double number : *numbers) {
      if (std::string why = OutOfRange(setting, number); !why.empty()) return why;
    }
  }
  return "";
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
