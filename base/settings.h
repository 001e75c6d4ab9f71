// Settings: the values that a section of a run file gives to whoever it is about (a family of
// models, a source of data), by a table of what may be set. The owner of such a section lists its
// rows; the configuration reads files by them, checks types and ranges, and documents them.
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
using SettingValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

// One row of a table.
struct Setting {
  enum class Type { kBool, kInt, kFloat, kString, kChoice, kStringList };
  // Does it say anything beside weights that are loaded, which bring their model's shape?
  enum class BesideWeights { kNo, kYes, kOnlyThere };

  std::string name;  // "width"
  Type type = Type::kInt;
  std::string doc;                  // one sentence, Markdown
  SettingValue default_value = {};  // monostate: found by the owner (`derived`), or required
  std::string derived = {};         // how that is found, in words
  std::string required = {};        // the way out where it is missing: "give the number of …"
  std::vector<std::string> choices = {};  // kChoice
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out of range
  bool below_max = false;  // max itself is out of range
  // It means something only where another setting, a choice, has one of these values.
  std::string when = {};
  std::vector<std::string> when_values = {};
  BesideWeights beside_weights = BesideWeights::kNo;
};

// A value that cannot be. what() is the reason alone: the configuration knows key, file and line.
class SettingError : public std::runtime_error {
 public:
  SettingError(std::string name, const std::string& reason)
      : std::runtime_error(reason), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// One that has to be there. what() is the way out.
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
  int64_t IntOr(std::string_view name, int64_t fallback) const;
  // monostate: not set.
  const SettingValue& Get(std::string_view name) const;

  // `place`: where the file says so ("run.yaml:4"); empty: it doesn't.
  void Set(const std::string& name, SettingValue value, std::string place = "");
  // Unless the file has said something.
  void Derive(const std::string& name, SettingValue value);
  bool IsGiven(std::string_view name) const;
  // " (run.yaml:4)", for messages that name a second setting; empty where the file says nothing.
  std::string At(std::string_view name) const;

  std::vector<std::string> Names() const;
  // By values: places don't count.
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

// Puts default values where nothing is set, and lets the owner (if it has a say) fill in the rest.
// MissingSetting, and SettingErrors of the owner.
void CompleteSettings(const std::vector<Setting>& rows,
                      const std::function<void(Settings&)>& complete, Settings& settings);

}  // namespace plimsoll
