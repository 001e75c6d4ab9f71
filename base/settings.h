// Settings: the values that a section of a run file gives to its owner (a model family, a data
// source). The owner declares a table of the allowed settings. The configuration uses the table to
// read files, check types and ranges, and write documentation.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll {

// std::monostate means that the setting has no value.
using SettingValue = std::variant<std::monostate, bool, int64_t, double, std::string,
                                  std::vector<std::string>, std::vector<double>>;

// One row of a table.
struct Setting {
  enum class Type { kBool, kInt, kFloat, kString, kChoice, kStringList, kFloatList };
  // Whether the setting applies if weights are loaded, which come with their model's shape.
  enum class WithLoadedWeights { kNo, kYes, kOnly };

  std::string name;  // "width"
  Type type = Type::kInt;
  std::string doc;                  // one sentence, Markdown
  SettingValue default_value = {};  // monostate: the owner derives it, or it is required
  std::string derived = {};         // how the owner derives the default, in words
  std::string required = {};        // advice if the value is missing: "give the number of …"
  std::vector<std::string> choices = {};  // allowed values of a kChoice
  // The range of a number, or of each number in a list.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out of range
  bool below_max = false;  // max itself is out of range
  // The setting applies only if another setting, a choice, has one of these values.
  std::string when = {};
  std::vector<std::string> when_values = {};
  WithLoadedWeights with_loaded_weights = WithLoadedWeights::kNo;
};

// An invalid value. what() is only the reason: the configuration adds key, file and line.
class SettingError : public std::runtime_error {
 public:
  SettingError(std::string name, const std::string& reason)
      : std::runtime_error(reason), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// A required setting that is missing. what() says what to do.
class MissingSetting : public SettingError {
  using SettingError::SettingError;
};

// Values by name. Getters throw InternalError if the value isn't set or has another type.
class Settings {
 public:
  bool Has(std::string_view name) const;
  bool Bool(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name) const;
  const std::string& Text(std::string_view name) const;
  const std::vector<std::string>& List(std::string_view name) const;
  const std::vector<double>& Floats(std::string_view name) const;
  int64_t IntOr(std::string_view name, int64_t fallback) const;
  // The value; monostate if it isn't set.
  const SettingValue& Get(std::string_view name) const;

  // Sets a value. `place`: where the file sets it ("run.yaml:4"); empty: the file doesn't set it.
  void Set(const std::string& name, SettingValue value, std::string place = "");
  // Sets the value unless the file has set one.
  void Derive(const std::string& name, SettingValue value);
  void Remove(const std::string& name) { entries_.erase(name); }
  bool IsGiven(std::string_view name) const;
  // The place of a setting for messages that name a second setting: " (run.yaml:4)"; empty if the
  // file doesn't set it.
  std::string At(std::string_view name) const;

  std::vector<std::string> Names() const;
  // Compares values, but not places.
  bool operator==(const Settings& other) const;

 private:
  struct Entry {
    SettingValue value;
    std::string place;
  };
  template <typename T>
  const T& As(std::string_view name, const char* type) const;

  std::map<std::string, Entry, std::less<>> entries_;
};

// Why the setting may not have the value: a number out of range, or one that float32 doesn't hold.
// Empty: the value is allowed.
std::string OutOfRange(const Setting& setting, const SettingValue& value);

// Sets default values for settings without a value, and calls `complete`, if given, which lets the
// owner derive the rest. Throws MissingSetting, and the owner's SettingErrors.
void CompleteSettings(const std::vector<Setting>& rows,
                      const std::function<void(Settings&)>& complete, Settings& settings);

}  // namespace plimsoll
