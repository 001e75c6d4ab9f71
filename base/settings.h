// Settings: the values that a section of a run file gives to its owner (a family of models, a
// source of data), according to a table of the allowed settings. The owner of such a section lists
// its rows; the configuration uses them to read files, check types and ranges, and write
// documentation.
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

// std::monostate: not set.
using SettingValue = std::variant<std::monostate, bool, int64_t, double, std::string,
                                  std::vector<std::string>, std::vector<double>>;

// One row of a table.
struct Setting {
  enum class Type { kBool, kInt, kFloat, kString, kChoice, kStringList, kFloatList };
  // Whether it has a meaning beside loaded weights, which come with their model's shape.
  enum class BesideWeights { kNo, kYes, kOnlyThere };

  std::string name;  // "width"
  Type type = Type::kInt;
  std::string doc;                        // one sentence, Markdown
  SettingValue default_value = {};        // monostate: `derived` by the owner, or required
  std::string derived = {};               // how the owner derives it, in words
  std::string required = {};              // advice if it is missing: "give the number of …"
  std::vector<std::string> choices = {};  // kChoice
  // Of numbers, and of each number in a list.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out of range
  bool below_max = false;  // max itself is out of range
  // The setting has a meaning only if another setting, a choice, has one of these values.
  std::string when = {};
  std::vector<std::string> when_values = {};
  BesideWeights concurrent_weights = BesideWeights::kNo;
};

// An impossible value. what() is the reason alone: the configuration adds key, file and line.
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

// Values by name. Getters throw InternalError when the value isn't set or of another type.
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
  // monostate: not set.
  const SettingValue& Get(std::string_view name) const;

  // `place`: where the file sets it ("run.yaml:4"); empty: the file doesn't.
  void Set(const std::string& name, SettingValue value, std::string place = "");
  // Sets the value unless the file has set one.
  void Derive(const std::string& name, SettingValue value);
  void Remove(const std::string& name) { entries_.erase(name); }
  bool IsGiven(std::string_view name) const;
  // " (run.yaml:4)", for messages that name a second setting; empty if the file doesn't set it.
  std::string At(std::string_view name) const;

  std::vector<std::string> Names() const;
  // Compares values; places don't count.
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

// Why the value is none that the setting may have: a number out of range, or one that float32
// doesn't hold. Empty: it may.
std::string OutOfRange(const Setting& setting, const SettingValue& value);

// Sets default values where nothing is set, and lets the owner, if it has a function for that, fill
// in the rest. Throws MissingSetting, and the owner's SettingErrors.
void CompleteSettings(const std::vector<Setting>& rows,
                      const std::function<void(Settings&)>& complete, Settings& settings);

}  // namespace plimsoll
