#include "data/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostClasses = 1'000'000;  // bounds the table of class names

using formats::JsonObject;
using nlohmann::json;

// Reads a class, given by its name or number.
std::string ClassIn(const json& value, const JsonObject& line, const std::string& key) {
  if (value.is_string()) {
    std::string name = value.get<std::string>();
    if (name.empty()) line.Fail(key, "is empty; give a class's name or number");
    return name;
  }
  const int64_t number = value.is_number_unsigned() ? value.get<int64_t>() : -1;
  if (number < 0 || number >= kMostClasses) {
    line.Fail(key, fmt::format("must be in [0, {}], not {}", kMostClasses - 1, value.dump()));
  }
  return std::to_string(number);
}

// Reads a number as float32; it must be within [min, max].
float ValueIn(const json& value, double min, double max, const JsonObject& line,
              const std::string& key) {
  const double number = value.is_boolean() ? value.get<bool>() : value.get<double>();
  if (!(number >= min && number <= max)) {
    line.Fail(key, fmt::format("{} is not within [{}, {}]", number, min, max));
  }
  return static_cast<float>(number);
}

void ParseClass(const JsonObject& line, GivenLabel& given) {
  const json& label = line.json().at("label");
  if (label.is_array()) {
    line.Fail("label",
              "is a list, and the model tells one class of each sample; set model.problem_type: "
              "multi_label_classification");
  }
  if (!label.is_string() && !label.is_number_integer()) {
    line.Fail("label",
              "is neither a string nor an integer; give a class's name or number, or set "
              "model.problem_type: regression to predict numbers");
  }
  given.numbered = label.is_number_integer();
  given.names = {ClassIn(label, line, "label")};
}

// Reads a class, a list of classes, or a list with a value for each class. A list of integers alone
// holds class numbers; other numbers, and true and false, are values.
void ParseClasses(const JsonObject& line, const std::string& key, GivenLabel& given) {
  const json& label = line.json().at(key);
  const json list = label.is_array() ? label : json::array({label});
  const auto all = [&](bool (*is)(const json&)) { return std::ranges::all_of(list, is); };
  const bool named = all([](const json& value) { return value.is_string(); });
  given.numbered = !named && all([](const json& value) { return value.is_number_integer(); });
  if (named || given.numbered) {
    for (const json& value : list) {
      given.names.push_back(ClassIn(value, line, key));
      if (std::ranges::count(given.names, given.names.back()) == 1) continue;
      line.Fail(key, fmt::format("names class {} twice; values for all classes are written 0.0 and "
                                 "1.0",
                                 formats::Printable(given.names.back())));
    }
  } else if (label.is_array() &&
             all([](const json& value) { return value.is_number() || value.is_boolean(); })) {
    for (const json& value : list) given.values.push_back(ValueIn(value, 0, 1, line, key));
  } else {
    line.Fail(key,
              "is no list of classes; give their names or numbers, or a value from 0.0 to 1.0 for "
              "each class");
  }
}

void ParseNumber(const JsonObject& line, GivenLabel& given) {
  const json& label = line.json().at("label");
  if (!label.is_number()) {
    line.Fail("label",
              "is no number, which model.problem_type: regression predicts; give one, or another "
              "problem_type");
  }
  constexpr double kMost = std::numeric_limits<float>::max();
  given.values = {ValueIn(label, -kMost, kMost, line, "label")};
}

}  // namespace

LabelKind LabelKindOf(const graph::Shape& label_values) {
  if (label_values.rank() == 0) return LabelKind::kClass;
  return label_values.rank() == 1 ? LabelKind::kNumber : LabelKind::kClasses;
}

GivenLabel ParseLabel(const JsonObject& line, const std::string& where, LabelKind kind) {
  GivenLabel given = {.names = {}, .where = where};
  const bool plural = kind == LabelKind::kClasses && !line.Has("label") && line.Has("labels");
  if (!plural && !line.Has("label")) {
    line.Fail("label", kind == LabelKind::kNumber ? "is missing; give a number"
                                                  : "is missing; give a class's name or number");
  }
  switch (kind) {
    case LabelKind::kClass:
      ParseClass(line, given);
      break;
    case LabelKind::kClasses:
      ParseClasses(line, plural ? "labels" : "label", given);
      break;
    case LabelKind::kNumber:
      ParseNumber(line, given);
      break;
  }
  return given;
}

int32_t LabelClasses::NumberOf(const std::string& label, const GivenLabel& given,
                               int64_t most) const {
  int64_t number = 0;
  if (given.numbered) {
    number = std::stoll(label);
    if (number >= std::ssize(names)) {
      throw UserError(fmt::format("{}: label {} is none of the {} classes, 0 to {}", given.where,
                                  number, names.size(), names.size() - 1));
    }
  } else {
    const auto found = std::ranges::find(names, label);
    if (found == names.end()) {
      throw UserError(fmt::format("{}: label '{}' is none of the {} classes of {}", given.where,
                                  formats::Printable(label), names.size(), from));
    }
    number = found - names.begin();
  }
  if (most == 0 || number < most) return static_cast<int32_t>(number);
  throw UserError(
      fmt::format("{}: label '{}' is class {}, but the model has {}, from 0 on; set "
                  "model.classes to {}",
                  given.where, formats::Printable(label), number, most, names.size()));
}

SampleLabel LabelClasses::Of(const GivenLabel& given, LabelKind kind, int64_t most) const {
  if (kind == LabelKind::kClass) {
    return {.number = NumberOf(given.names.front(), given, most)};
  }
  SampleLabel label = {.has_values = true};
  for (const std::string& name : given.names) {
    label.values.emplace_back(NumberOf(name, given, most), 1.0f);
  }
  // The list [0, 1] is ambiguous: both classes, or values that select the second class.
  if (given.numbered && most == 2 && given.names.size() == 2) {
    throw UserError(
        fmt::format("{}: label [{}] may be two classes, or a value for each of two; write the "
                    "classes' names, or values as 0.0 and 1.0",
                    given.where, fmt::join(given.names, ", ")));
  }
  const auto values = std::ssize(given.values);
  if (kind == LabelKind::kClasses && values > 0 && most > 0 && values != most) {
    throw UserError(fmt::format(
        "{}: gives {} for the model's {} classes; set model.classes to {}, or give one for "
        "each class",
        given.where, Counted(values, "value"), most, values));
  }
  for (int32_t i = 0; i < values; ++i) {
    const float value = given.values[static_cast<size_t>(i)];
    if (value != 0) label.values.emplace_back(i, value);
  }
  return label;
}

LabelClasses ClassesOf(const std::vector<const GivenLabel*>& labels,
                       const std::vector<std::string>& given) {
  // Values refer to classes by number. A sample without any class fits names and numbers.
  const auto is_numbered = [](const GivenLabel& label) {
    return label.numbered || !label.values.empty();
  };
  const GivenLabel* first = nullptr;
  std::set<std::string> names;
  int64_t count = 0;
  for (const GivenLabel* label : labels) {
    if (label->names.empty() && label->values.empty()) continue;
    if (first == nullptr) first = label;
    if (is_numbered(*label) != is_numbered(*first)) {
      throw UserError(fmt::format("{}: label is a {}, and that of {} is a {}; give one kind",
                                  label->where, is_numbered(*label) ? "number" : "name",
                                  first->where, is_numbered(*first) ? "number" : "name"));
    }
    count = std::max(count, std::ssize(label->values));
    for (const std::string& name : label->names) {
      if (label->numbered) {
        count = std::max<int64_t>(count, std::stoll(name) + 1);
      } else {
        names.insert(name);
      }
    }
  }
  if (!given.empty()) return {.names = given};
  LabelClasses classes = {.names = {names.begin(), names.end()}};
  for (int64_t i = 0; i < count; ++i) classes.names.push_back(std::to_string(i));
  return classes;
}

LabelClasses ClassesOf(const std::vector<GivenLabel>& labels,
                       const std::vector<std::string>& given) {
  std::vector<const GivenLabel*> all;
  for (const GivenLabel& label : labels) all.push_back(&label);
  return ClassesOf(all, given);
}

void LabelTable::Add(const SampleLabel& label) {
  const int64_t first = std::ssize(values_);
  values_.insert(values_.end(), label.values.begin(), label.values.end());
  rows_.push_back({.number = label.number,
                   .first = first,
                   .end = label.has_values ? std::ssize(values_) : kNoValues});
}

int32_t LabelTable::number(int64_t row) const { return At(row).number; }

void LabelTable::FillValues(int64_t row, std::span<float> to) const {
  const Row label = At(row);
  const bool has_values = label.end != kNoValues;
  std::ranges::fill(to, has_values ? 0.0f : std::numeric_limits<float>::quiet_NaN());
  if (to.empty()) return;
  for (int64_t i = label.first; i < label.end; ++i) {
    const auto& [place, value] = values_[static_cast<size_t>(i)];
    to[static_cast<size_t>(place)] = value;
  }
}

}  // namespace plimsoll::data
