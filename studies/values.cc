#include "studies/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

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

// The most values of one axis; a range with more is a mistake.
constexpr int64_t kMostValues = 10'000;

// Keys that a study sets for all its runs, or that work differently in a study.
constexpr const char* kOfTheStudy[] = {
    "run.dir",          "run.overwrite",      "train.stop_after",  "train.eval_every",
    "train.early_stop", "train.sample_every", "debug.check_arena", "save.model",
    "memory.summary",   "memory.calibration", "log.csv",           "log.tensorboard",
    "log.report",       "log.mlflow"};

void RefuseKeysOfTheStudy(const std::string& path, const std::string& where,
                          const std::string& origin) {
  for (const char* key : kOfTheStudy) {
    if (path != key) continue;
    throw UserError(
        fmt::format("{}: {}.{}: is the study's own to set; remove it", origin, where, path));
  }
}

[[noreturn]] void Unknown(const std::string& path, const std::string& where,
                          const std::string& origin) {
  const std::string nearest = config::NearestKey(path);
  throw UserError(fmt::format("{}: {}.{}: unknown key{}", origin, where, config::ShowKey(path),
                              nearest.empty() ? "; plimsoll config --reference lists all keys"
                                              : fmt::format(", did you mean {}?", nearest)));
}

Tree Scalar(const std::string& text, const std::string& origin) {
  Tree tree;
  tree.kind = Tree::Kind::kScalar;
  tree.origin = origin;
  tree.text = text;
  return tree;
}

// A range in plain numbers: bytes for sizes.
class Range {
 public:
  Range(const Key& key, const Tree& map, const std::string& where)
      : key_(key), map_(map), where_(where) {
    if (key.type != Type::kInt && key.type != Type::kFloat && key.type != Type::kMemorySize &&
        key.type != Type::kAutoOrInt) {
      Fail(map.origin, "a range is for numbers and sizes; list the values");
    }
    for (const TreeEntry& entry : map.entries) {
      if (entry.key == "from") {
        from_ = Number(entry);
      } else if (entry.key == "to") {
        to_ = Number(entry);
      } else if (entry.key == "step") {
        step_ = Number(entry);
      } else if (entry.key == "count") {
        count_ = std::get<int64_t>(config::ParseValue(Type::kInt, where + ".count", entry.value));
      } else if (entry.key == "times") {
        times_ = std::get<double>(config::ParseValue(Type::kFloat, where + ".times", entry.value));
      } else {
        throw UserError(
            fmt::format("{}: {}.{}: unknown key; a range has from, to, and step, count or times",
                        entry.origin, where, config::ShowKey(entry.key)));
      }
    }
    if (!from_ || !to_ || step_.has_value() + count_.has_value() + times_.has_value() != 1) {
      Fail(map.origin, "a range has from, to, and one of step, count and times");
    }
    if (*to_ < *from_) Fail(map.origin, "`to` is below `from`");
  }

  std::vector<Tree> Values() const {
    std::vector<Tree> values;
    for (const double number : Numbers()) {
      const Tree value = Scalar(Text(number), map_.origin);
      if (values.empty() || values.back().text != value.text) values.push_back(value);
    }
    return values;
  }

 private:
  [[noreturn]] void Fail(const std::string& origin, const std::string& reason) const {
    throw UserError(fmt::format("{}: {}: {}", origin, where_, reason));
  }

  double Number(const TreeEntry& entry) const {
    const std::string path = where_ + "." + entry.key;
    if (key_.type == Type::kMemorySize) {
      const auto size =
          std::get<config::MemorySize>(config::ParseValue(key_.type, path, entry.value));
      if (size.base != config::MemorySize::Base::kAbsolute) {
        Fail(entry.origin, "a range of sizes runs from bytes to bytes; list shares as values");
      }
      return static_cast<double>(size.bytes);
    }
    if (key_.type == Type::kFloat) {
      return std::get<double>(config::ParseValue(Type::kFloat, path, entry.value));
    }
    return static_cast<double>(
        std::get<int64_t>(config::ParseValue(Type::kInt, path, entry.value)));
  }

  std::vector<double> Numbers() const {
    std::vector<double> numbers;
    const auto add = [&](double number) {
      if (static_cast<int64_t>(numbers.size()) == kMostValues) {
        Fail(map_.origin, fmt::format("more than {} values", kMostValues));
      }
      numbers.push_back(number);
    };
    if (count_) {
      if (*count_ < 1) Fail(map_.origin, "the list is empty: count is below 1");
      if (*count_ > kMostValues) Fail(map_.origin, fmt::format("more than {} values", kMostValues));
      const double last = std::max<double>(1, static_cast<double>(*count_ - 1));
      for (int64_t i = 0; i < *count_; ++i) {
        add(*from_ + (*to_ - *from_) * static_cast<double>(i) / last);
      }
    } else if (step_) {
      if (*step_ <= 0) Fail(map_.origin, "step must be above 0");
      // A float's last step may miss `to` by a rounding.
      const double end = *to_ + *step_ * 1e-9;
      for (int64_t i = 0; *from_ + *step_ * static_cast<double>(i) <= end; ++i) {
        add(*from_ + *step_ * static_cast<double>(i));
      }
    } else {
      if (*times_ <= 1 || *from_ <= 0) {
        Fail(map_.origin, "times must be above 1, and `from` above 0");
      }
      for (double number = *from_; number <= *to_ * (1 + 1e-9); number *= *times_) add(number);
    }
    return numbers;
  }

  std::string Text(double number) const {
    return key_.type == Type::kFloat ? fmt::format("{}", number)
                                     : fmt::format("{}", std::llround(number));
  }

  const Key& key_;
  const Tree& map_;
  const std::string& where_;
  std::optional<double> from_, to_, step_, times_;
  std::optional<int64_t> count_;
};

// Refuses values that the key cannot have; null is allowed, since it removes a value.
void Check(const Key& key, const Tree& value) {
  if (value.kind != Tree::Kind::kNull) (void)config::ParseKey(key, value);
}

}  // namespace

void ForEachKey(const Tree& map, const std::string& where, const Leaf& leaf) {
  if (map.kind == Tree::Kind::kNull) return;
  if (map.kind != Tree::Kind::kMap) {
    throw UserError(fmt::format("{}: {}: expected keys of a run file, got {}", map.origin, where,
                                config::Describe(map)));
  }
  for (const TreeEntry& entry : map.entries) {
    if (const Key* key = config::FindKey(entry.key); key != nullptr) {
      RefuseKeysOfTheStudy(key->path, where, entry.origin);
      leaf(*key, entry);
    } else if (config::IsSection(entry.key)) {
      if (entry.value.kind != Tree::Kind::kMap) {
        throw UserError(fmt::format("{}: {}.{}: expected keys of this section, got {}",
                                    entry.origin, where, entry.key, config::Describe(entry.value)));
      }
      for (const TreeEntry& inner : entry.value.entries) {
        const std::string path = entry.key + "." + inner.key;
        const Key* of_section = config::FindKey(path);
        if (of_section == nullptr) Unknown(path, where, inner.origin);
        RefuseKeysOfTheStudy(path, where, inner.origin);
        leaf(*of_section, inner);
      }
    } else {
      Unknown(entry.key, where, entry.origin);
    }
  }
}

KeyTrees ReadSettings(const Tree& map, const std::string& where) {
  KeyTrees settings;
  ForEachKey(map, where, [&](const Key& key, const TreeEntry& entry) {
    Tree value = entry.value;
    value.origin = entry.origin;
    Check(key, value);
    if (!settings.emplace(key.path, value).second) {
      throw UserError(
          fmt::format("{}: {}.{}: given twice; keep one", entry.origin, where, key.path));
    }
  });
  return settings;
}

std::vector<Tree> ReadValues(const Key& key, const Tree& value, const std::string& where) {
  std::vector<Tree> values;
  if (value.kind == Tree::Kind::kMap) {
    values = Range(key, value, where).Values();
  } else if (value.kind == Tree::Kind::kList) {
    values = value.items;
  } else {
    values = {value};
  }
  if (values.empty())
    throw UserError(fmt::format("{}: {}: the list is empty", value.origin, where));
  for (size_t i = 0; i < values.size(); ++i) {
    Check(key, values[i]);
    for (size_t j = 0; j < i; ++j) {
      if (SetArgument(key.path, values[i]) != SetArgument(key.path, values[j])) continue;
      throw UserError(fmt::format("{}: {}: {} stands there twice", values[i].origin, where,
                                  ShortText(key.path, values[i])));
    }
  }
  return values;
}

std::string SetArgument(const std::string& key, const Tree& value) {
  if (value.kind == Tree::Kind::kNull) return key + "=null";
  const Key& row = *config::FindKey(key);
  return key + "=" + config::ToText(row.type, config::ParseKey(row, value));
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
