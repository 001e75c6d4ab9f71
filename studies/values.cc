#include "studies/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/config/suggest.h"
#include "trainer/config/value.h"

namespace plimsoll::studies {
namespace {

using config::Key;
using config::KeyTrees;
using config::Tree;
using config::TreeEntry;
using config::Type;

// The most values of one axis; a range with more values is a mistake.
constexpr int64_t kMostValues = 10'000;

// Keys that a study sets for all its runs, or that work differently in a study.
constexpr const char* kOfTheStudy[] = {
    "run.dir",          "run.overwrite",      "train.stop_after",  "train.eval_every",
    "train.early_stop", "train.sample_every", "debug.check_arena", "save.model",
    "memory.summary",   "memory.calibration", "log.csv",           "log.tensorboard",
    "log.report",       "log.mlflow"};

// A range of plain numbers; sizes are in bytes.
class Range {
 public:
  Range(const Key& key, const Tree& map, const std::string& where)
      : key_(key), map_(map), where_(where) {
    if (key.type != Type::kInt && key.type != Type::kFloat && key.type != Type::kMemorySize &&
        key.type != Type::kAutoOrInt) {
      RefuseAt(map.origin, where, "a range is for numbers and sizes; list the values");
    }
    for (const TreeEntry& entry : map.entries) given_[entry.key] = Number(entry);
    if (!Has("from") || !Has("to") || given_.size() != 3) {
      RefuseAt(map.origin, where, "a range has from, to, and one of step, count and times");
    }
    if (given_["to"] < given_["from"]) RefuseAt(map.origin, where, "`to` is below `from`");
  }

  std::vector<Tree> Values() const {
    std::vector<Tree> values;
    for (const double number : Numbers()) {
      Tree value;
      value.kind = Tree::Kind::kScalar;
      value.origin = map_.origin;
      value.text = key_.type == Type::kFloat ? fmt::format("{}", number)
                                             : fmt::format("{}", std::llround(number));
      if (values.empty() || values.back().text != value.text) values.push_back(value);
    }
    return values;
  }

 private:
  bool Has(const char* name) const { return given_.contains(name); }

  double Number(const TreeEntry& entry) const {
    Type type = key_.type == Type::kAutoOrInt ? Type::kInt : key_.type;
    if (entry.key == "count" || entry.key == "times") {
      type = entry.key == "count" ? Type::kInt : Type::kFloat;
    } else if (entry.key != "from" && entry.key != "to" && entry.key != "step") {
      RefuseAt(entry.origin, where_ + "." + config::ShowKey(entry.key),
               "unknown key; a range has from, to, and step, count or times");
    }
    const config::Value value = config::ParseValue(type, where_ + "." + entry.key, entry.value);
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
    const auto& size = std::get<config::MemorySize>(value);
    if (size.base != config::MemorySize::Base::kAbsolute) {
      RefuseAt(entry.origin, where_,
               "a range of sizes runs from bytes to bytes; list shares as values");
    }
    return static_cast<double>(size.bytes);
  }

  std::vector<double> Numbers() const {
    const double from = given_.at("from"), to = given_.at("to");
    std::vector<double> numbers;
    const auto add = [&](double number) {
      numbers.push_back(number);
      if (numbers.size() > kMostValues) {
        RefuseAt(map_.origin, where_, fmt::format("more than {} values", kMostValues));
      }
    };
    if (Has("count")) {
      const double count = given_.at("count");
      if (count < 1) RefuseAt(map_.origin, where_, "the list is empty: count is below 1");
      for (double i = 0; i < count; ++i) add(from + (to - from) * i / std::max(1.0, count - 1));
    } else if (Has("step")) {
      const double step = given_.at("step");
      if (step <= 0) RefuseAt(map_.origin, where_, "step must be above 0");
      // The last step of a float range may miss `to` by a rounding error.
      for (double i = 0; from + step * i <= to + step * 1e-9; ++i) add(from + step * i);
    } else {
      const double times = given_.at("times");
      if (times <= 1 || from <= 0)
        RefuseAt(map_.origin, where_, "times must be above 1, and `from` above 0");
      for (double number = from; number <= to * (1 + 1e-9); number *= times) add(number);
    }
    return numbers;
  }

  const Key& key_;
  const Tree& map_;
  const std::string& where_;
  std::map<std::string, double> given_;
};

// Refuses values that the key cannot have; null is allowed, since it removes a value.
void Check(const Key& key, const Tree& value) {
  if (value.kind != Tree::Kind::kNull) (void)config::ParseKey(key, value);
}

}  // namespace

void RefuseAt(const std::string& origin, const std::string& path, const std::string& reason) {
  throw UserError(origin + ": " + path + ": " + reason);
}

void RefuseUnknown(const std::string& origin, const std::string& path, const std::string& nearest,
                   const std::string& command) {
  RefuseAt(
      origin, path,
      "unknown key" + (nearest.empty() ? "; plimsoll " + command + " --reference lists all keys"
                                       : ", did you mean " + nearest + "?"));
}

void RequireKind(Tree::Kind kind, const std::string& expected, const std::string& origin,
                 const std::string& path, const Tree& value) {
  if (value.kind == kind) return;
  RefuseAt(origin, path, "expected " + expected + ", got " + config::Describe(value));
}

void ForEachKey(const Tree& map, const std::string& where, const Leaf& leaf) {
  if (map.kind == Tree::Kind::kNull) return;
  RequireKind(Tree::Kind::kMap, "keys of a run file", map.origin, where, map);
  const auto visit = [&](const std::string& path, const TreeEntry& entry) {
    const Key* const key = config::FindKey(path);
    if (key == nullptr) {
      RefuseUnknown(entry.origin, where + "." + config::ShowKey(path), config::NearestKey(path),
                    "config");
    }
    if (std::ranges::find(kOfTheStudy, path) != std::end(kOfTheStudy)) {
      RefuseAt(entry.origin, where + "." + path, "is the study's own to set; remove it");
    }
    leaf(*key, entry);
  };
  const auto walk = [&](const auto& self, const std::string& path, const TreeEntry& entry) -> void {
    if (config::FindKey(path) != nullptr ||
        (!config::IsSection(path) && !config::IsNestedMap(path))) {
      return visit(path, entry);
    }
    RequireKind(Tree::Kind::kMap, "keys of this section", entry.origin, where + "." + path,
                entry.value);
    for (const TreeEntry& inner : entry.value.entries) self(self, path + "." + inner.key, inner);
  };
  for (const TreeEntry& entry : map.entries) walk(walk, entry.key, entry);
}

KeyTrees ReadSettings(const Tree& map, const std::string& where) {
  KeyTrees settings;
  ForEachKey(map, where, [&](const Key& key, const TreeEntry& entry) {
    Tree value = entry.value;
    value.origin = entry.origin;
    Check(key, value);
    if (!settings.emplace(key.path, value).second) {
      RefuseAt(entry.origin, where + "." + key.path, "given twice; keep one");
    }
  });
  return settings;
}

KeyTrees Overlaid(const KeyTrees& settings, const KeyTrees& layer) {
  KeyTrees all = layer;
  all.insert(settings.begin(), settings.end());  // adds settings that `layer` lacks
  return all;
}

std::vector<Tree> ReadValues(const Key& key, const Tree& value, const std::string& where) {
  const std::vector<Tree> values = value.kind == Tree::Kind::kMap
                                       ? Range(key, value, where).Values()
                                   : value.kind == Tree::Kind::kList ? value.items
                                                                     : std::vector<Tree>{value};
  if (values.empty()) RefuseAt(value.origin, where, "the list is empty");
  for (size_t i = 0; i < values.size(); ++i) {
    Check(key, values[i]);
    for (size_t j = 0; j < i; ++j) {
      if (SetArgument(key.path, values[i]) != SetArgument(key.path, values[j])) continue;
      RefuseAt(values[i].origin, where, ShortText(key.path, values[i]) + " is there twice");
    }
  }
  return values;
}

std::string SetArgument(const std::string& key, const Tree& value) {
  if (value.kind == Tree::Kind::kNull) return key + "=null";
  const Key& row = *config::FindKey(key);
  return key + "=" + config::ToText(row.type, config::ParseKey(row, value));
}

std::vector<std::string> SetsOf(const KeyTrees& settings) {
  std::vector<std::string> sets;
  for (const auto& [key, value] : settings) sets.push_back(SetArgument(key, value));
  return sets;
}

std::string ShortText(const std::string& key, const Tree& value) {
  if (value.kind == Tree::Kind::kNull) return "unset";
  const Key& row = *config::FindKey(key);
  const config::Value parsed = config::ParseKey(row, value);
  if (const auto* size = std::get_if<config::MemorySize>(&parsed);
      size != nullptr && size->base == config::MemorySize::Base::kAbsolute) {
    return FormatBytes(size->bytes);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&parsed)) {
    return list->empty() ? "none" : fmt::format("{}", fmt::join(*list, "+"));
  }
  if (const auto* text = std::get_if<std::string>(&parsed)) return *text;
  return config::ToText(row.type, parsed);
}

}  // namespace plimsoll::studies
