// Helpers that write rows of the schema: a section's Add ties a key to a field of RunConfig and
// takes the key's type from the field's type; the chained calls after it refine the row.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/config/schema.h"

namespace plimsoll::config {

// Upper bounds of counts: far beyond any run, but small enough that products of a few do not
// overflow.
inline constexpr double kThousands = 1e5;
inline constexpr double kMillions = 1e7;
inline constexpr double kSteps = 1e12;
inline constexpr double kEpochs = 1e6;
inline constexpr double kSeeds =
    9007199254740992.0;  // 2^53: exact in JSON and YAML readers everywhere

// The type of a key for a field of type T, unless the row sets another type.
template <typename T>
constexpr Type TypeOf() {
  if constexpr (std::is_same_v<T, OnOrAuto>) return Type::kAutoOrBool;
  if constexpr (std::is_enum_v<T>) return Type::kEnum;
  if constexpr (std::is_same_v<T, bool>) return Type::kBool;
  if constexpr (std::is_same_v<T, int64_t>) return Type::kInt;
  if constexpr (std::is_same_v<T, std::optional<int64_t>>) return Type::kInt;
  if constexpr (std::is_same_v<T, double>) return Type::kFloat;
  if constexpr (std::is_same_v<T, std::string>) return Type::kString;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return Type::kStringList;
  if constexpr (std::is_same_v<T, std::vector<double>>) return Type::kFloatList;
  if constexpr (std::is_same_v<T, std::array<double, 2>>) return Type::kPair;
  if constexpr (std::is_same_v<T, std::optional<MemorySize>>) return Type::kMemorySize;
  if constexpr (std::is_same_v<T, std::vector<WeightDecayGroup>>) return Type::kWeightDecayGroups;
  if constexpr (std::is_same_v<T, std::vector<TrainSource>>) return Type::kTrainSources;
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
Value Read(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return ToString(field);
  } else if constexpr (IsOptional<T>::value) {
    return field ? Value(*field) : Value();
  } else {
    return field;
  }
}

template <typename T>
void Write(T& field, const Value& value) {
  if constexpr (std::is_enum_v<T>) {
    const std::vector<std::string>& names = EnumNames<T>();
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == std::get<std::string>(value)) field = static_cast<T>(i);
    }
  } else if constexpr (IsOptional<T>::value) {
    field.reset();
    if (const auto* set = std::get_if<typename T::value_type>(&value)) field = *set;
  } else {
    field = std::get<T>(value);
  }
}

// One row of the schema, written as a chain: Add(…).Between(0, 1).
class Row {
 public:
  explicit Row(Key& key) : key_(key) {}
  Row& Between(double min, double max) {
    key_.min = min;
    key_.max = max;
    return *this;
  }
  Row& Above(double min) {
    key_.min = min;
    key_.above_min = true;
    return *this;
  }
  Row& Below(double max) {
    key_.max = max;
    key_.below_max = true;
    return *this;
  }
  Row& AtLeast(double min) {
    key_.min = min;
    return *this;
  }
  Row& As(Type type) {
    key_.type = type;
    return *this;
  }
  Row& Choices(std::vector<std::string> choices) {
    key_.choices = std::move(choices);
    return *this;
  }
  // `word` is another spelling of a choice.
  Row& Also(std::string word, std::string choice) {
    key_.also[std::move(word)] = std::move(choice);
    return *this;
  }
  Row& Derived(std::string how) {
    key_.derived = std::move(how);
    return *this;
  }
  Row& When(std::string key, std::vector<std::string> values) {
    key_.when_key = std::move(key);
    key_.when_values = std::move(values);
    return *this;
  }

 private:
  Key& key_;
};

// The keys of one section S, a member of RunConfig.
template <typename S>
class SectionKeys {
 public:
  SectionKeys(std::vector<Key>& keys, std::string name, S RunConfig::*section)
      : keys_(keys), name_(std::move(name)), section_(section) {}

  template <typename T>
  Row Add(const std::string& name, T S::*field, const std::string& doc) {
    S RunConfig::*const section = section_;
    Key key;
    key.path = name_ + "." + name;
    key.type = TypeOf<T>();
    key.doc = doc;
    if constexpr (TypeOf<T>() == Type::kEnum) key.choices = EnumNames<T>();
    key.get = [section, field](const RunConfig& config) { return Read(config.*section.*field); };
    key.set = [section, field](RunConfig& config, const Value& value) {
      Write(config.*section.*field, value);
    };
    keys_.push_back(std::move(key));
    return Row(keys_.back());
  }

 private:
  std::vector<Key>& keys_;
  const std::string name_;
  S RunConfig::*const section_;
};

}  // namespace plimsoll::config
