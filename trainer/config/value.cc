#include "trainer/config/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"

namespace plimsoll::config {
namespace {

template <typename T>
std::optional<T> ParseNumber(const std::string& text) {
  // from_chars does not accept a leading plus.
  const size_t start = text.size() > 1 && text[0] == '+' && text[1] != '-' ? 1 : 0;
  T value{};
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + start, end, value);
  if (error != std::errc() || last != end || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> ParseFloat(const std::string& text) {
  const std::optional<double> value = ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

[[noreturn]] void Expected(const std::string& what, const std::string& path, const Tree& tree,
                           const std::string& hint = "") {
  throw UserError(
      fmt::format("{}: {}: expected {}, got {}{}", tree.origin, path, what, Describe(tree), hint));
}

const std::string& ScalarOf(Type type, const std::string& path, const Tree& tree) {
  if (tree.kind != Tree::Kind::kScalar) Expected(TypeText(type), path, tree);
  return tree.text;
}

Value ParseBool(Type type, const std::string& path, const Tree& tree) {
  const std::string& text = ScalarOf(type, path, tree);
  if (!tree.quoted && (text == "true" || text == "True")) return true;
  if (!tree.quoted && (text == "false" || text == "False")) return false;
  Expected(TypeText(type), path, tree, tree.quoted ? "; remove the quotes" : "");
}

Value ParseInt(const std::string& path, const Tree& tree) {
  const std::string& text = ScalarOf(Type::kInt, path, tree);
  const std::optional<int64_t> value = ParseNumber<int64_t>(text);
  if (value && !tree.quoted) return *value;
  if (value) Expected("an integer", path, tree, "; remove the quotes");
  const std::optional<double> number = ParseFloat(text);
  const bool whole = number && *number == std::floor(*number) && std::abs(*number) < 1e15;
  Expected("an integer", path, tree, whole ? fmt::format("; write {:.0f}", *number) : "");
}

double FloatOf(Type type, const std::string& path, const Tree& tree) {
  const std::optional<double> value = ParseFloat(ScalarOf(type, path, tree));
  if (!value) Expected("a number", path, tree);
  if (tree.quoted) Expected("a number", path, tree, "; remove the quotes");
  return *value;
}

Value ParsePair(const std::string& path, const Tree& tree) {
  if (tree.kind != Tree::Kind::kList) Expected(TypeText(Type::kPair), path, tree);
  if (tree.items.size() != 2) {
    throw UserError(fmt::format("{}: {}: expected {}, got a list of {}", tree.origin, path,
                                TypeText(Type::kPair), tree.items.size()));
  }
  return std::array<double, 2>{FloatOf(Type::kFloat, path + "[0]", tree.items[0]),
                               FloatOf(Type::kFloat, path + "[1]", tree.items[1])};
}

Value ParseStringList(const std::string& path, const Tree& tree) {
  std::vector<std::string> values;
  if (tree.kind == Tree::Kind::kScalar) {
    if (!tree.text.empty()) values.push_back(tree.text);
    return values;
  }
  if (tree.kind != Tree::Kind::kList) Expected(TypeText(Type::kStringList), path, tree);
  for (const Tree& item : tree.items) {
    if (item.kind != Tree::Kind::kScalar || item.text.empty()) {
      Expected("a string", fmt::format("{}[{}]", path, values.size()), item);
    }
    values.push_back(item.text);
  }
  return values;
}

Value ParseFloatList(const std::string& path, const Tree& tree) {
  if (tree.kind != Tree::Kind::kList) {
    return std::vector<double>{FloatOf(Type::kFloatList, path, tree)};
  }
  std::vector<double> values;
  for (const Tree& item : tree.items) {
    values.push_back(FloatOf(Type::kFloat, fmt::format("{}[{}]", path, values.size()), item));
  }
  return values;
}

WeightDecayGroup ParseGroup(const std::string& path, const Tree& tree) {
  if (tree.kind != Tree::Kind::kMap) Expected("{pattern: …, weight_decay: …}", path, tree);
  WeightDecayGroup group;
  bool has_pattern = false, has_decay = false;
  for (const TreeEntry& entry : tree.entries) {
    const std::string entry_path = path + "." + entry.key;
    if (entry.key == "pattern") {
      group.pattern = ScalarOf(Type::kString, entry_path, entry.value);
      has_pattern = !group.pattern.empty();
    } else if (entry.key == "weight_decay") {
      group.weight_decay = FloatOf(Type::kFloat, entry_path, entry.value);
      has_decay = true;
      if (group.weight_decay < 0) {
        throw UserError(fmt::format("{}: {}: {} is out of range; it must be at least 0",
                                    entry.value.origin, entry_path, group.weight_decay));
      }
    } else {
      throw UserError(fmt::format("{}: {}: {}: unknown key; a group has pattern and weight_decay",
                                  entry.origin, path, Quote(entry.key)));
    }
  }
  if (!has_pattern) throw UserError(fmt::format("{}: {}: pattern is missing", tree.origin, path));
  if (!has_decay)
    throw UserError(fmt::format("{}: {}: weight_decay is missing", tree.origin, path));
  return group;
}

Value ParseGroups(const std::string& path, const Tree& tree) {
  if (tree.kind != Tree::Kind::kList) Expected(TypeText(Type::kWeightDecayGroups), path, tree);
  std::vector<WeightDecayGroup> groups;
  for (const Tree& item : tree.items) {
    groups.push_back(ParseGroup(fmt::format("{}[{}]", path, groups.size()), item));
  }
  return groups;
}

constexpr double kLeastWeight = 1e-6, kMostWeight = 1e6;

TrainSource ParseSource(const std::string& path, const Tree& tree) {
  if (tree.kind != Tree::Kind::kMap) {
    Expected("{files: …, weight: …}", path, tree, "; give every source a weight, or none");
  }
  TrainSource source;
  for (const TreeEntry& entry : tree.entries) {
    const std::string entry_path = path + "." + entry.key;
    if (entry.key == "files") {
      source.files = std::get<std::vector<std::string>>(ParseStringList(entry_path, entry.value));
    } else if (entry.key == "weight") {
      source.weight = FloatOf(Type::kFloat, entry_path, entry.value);
      if (source.weight < kLeastWeight || source.weight > kMostWeight) {
        throw UserError(fmt::format("{}: {}: {} is out of range; it must be between {} and {}",
                                    entry.value.origin, entry_path, source.weight, kLeastWeight,
                                    kMostWeight));
      }
    } else {
      throw UserError(fmt::format("{}: {}: {}: unknown key; a source has files and weight",
                                  entry.origin, path, Quote(entry.key)));
    }
  }
  if (source.files.empty()) {
    throw UserError(fmt::format("{}: {}: files is missing", tree.origin, path));
  }
  return source;
}

Value ParseSources(const std::string& path, const Tree& tree) {
  std::vector<TrainSource> sources;
  const bool plain =
      tree.kind != Tree::Kind::kList || std::ranges::none_of(tree.items, [](const Tree& item) {
        return item.kind == Tree::Kind::kMap;
      });
  if (!plain) {
    for (const Tree& item : tree.items) {
      sources.push_back(ParseSource(fmt::format("{}[{}]", path, sources.size()), item));
    }
    return sources;
  }
  if (tree.kind == Tree::Kind::kMap) Expected(TypeText(Type::kTrainSources), path, tree);
  auto files = std::get<std::vector<std::string>>(ParseStringList(path, tree));
  if (!files.empty()) sources.push_back({std::move(files)});
  return sources;
}

struct Unit {
  const char* name;
  double bytes;
};
constexpr Unit kUnits[] = {{"TiB", 1099511627776.0},
                           {"GiB", 1073741824.0},
                           {"MiB", 1048576.0},
                           {"KiB", 1024.0},
                           {"TB", 1e12},
                           {"GB", 1e9},
                           {"MB", 1e6},
                           {"KB", 1e3},
                           {"B", 1.0}};

std::string Trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool ParseBytes(const std::string& text, int64_t* bytes) {
  for (const Unit& unit : kUnits) {
    const std::string name = unit.name;
    if (text.size() <= name.size() ||
        text.compare(text.size() - name.size(), name.size(), name) != 0)
      continue;
    const std::optional<double> number =
        ParseFloat(Trim(text.substr(0, text.size() - name.size())));
    if (!number || *number < 0 || *number * unit.bytes >= 9e18) return false;
    *bytes = static_cast<int64_t>(*number * unit.bytes);
    return true;
  }
  const std::optional<int64_t> number = ParseNumber<int64_t>(text);
  if (!number || *number < 0) return false;
  *bytes = *number;
  return true;
}

std::string BytesText(int64_t bytes) {
  for (const Unit& unit : {kUnits[0], kUnits[1], kUnits[2], kUnits[3]}) {
    const auto size = static_cast<int64_t>(unit.bytes);
    if (bytes > 0 && bytes % size == 0) return fmt::format("{}{}", bytes / size, unit.name);
  }
  return fmt::format("{}", bytes);
}

}  // namespace

bool ParseMemorySize(const std::string& text, MemorySize* size) {
  *size = MemorySize{};
  const std::string trimmed = Trim(text);
  if (trimmed.rfind("free", 0) == 0) {
    size->base = MemorySize::Base::kFree;
    const std::string rest = Trim(trimmed.substr(4));
    return rest.empty() || (rest[0] == '-' && ParseBytes(Trim(rest.substr(1)), &size->bytes));
  }
  if (!trimmed.empty() && trimmed.back() == '%') {
    const std::optional<double> percent = ParseFloat(Trim(trimmed.substr(0, trimmed.size() - 1)));
    if (!percent || *percent <= 0 || *percent > 100) return false;
    size->base = MemorySize::Base::kTotal;
    size->fraction = *percent / 100;
    return true;
  }
  return ParseBytes(trimmed, &size->bytes) && size->bytes > 0;
}

std::string ToText(const MemorySize& size) {
  switch (size.base) {
    case MemorySize::Base::kAbsolute:
      return BytesText(size.bytes);
    case MemorySize::Base::kTotal:
      return fmt::format("{:.10g}%", size.fraction * 100);
    case MemorySize::Base::kFree:
      return size.bytes == 0 ? "free" : "free - " + BytesText(size.bytes);
  }
  return "";
}

std::string TypeText(Type type) {
  switch (type) {
    case Type::kBool:
      return "true or false";
    case Type::kInt:
      return "an integer";
    case Type::kFloat:
      return "a number";
    case Type::kString:
      return "a string";
    case Type::kEnum:
      return "a word";
    case Type::kPair:
      return "two numbers, [a, b]";
    case Type::kStringList:
      return "a string or a list of strings";
    case Type::kFloatList:
      return "a number or a list of numbers";
    case Type::kMemorySize:
      return "a size like 24GiB, 90% or free - 1GiB";
    case Type::kAutoOrInt:
      return "auto or an integer";
    case Type::kAutoOrBool:
      return "auto, true or false";
    case Type::kFolderOrBool:
      return "a folder, true or false";
    case Type::kWeightDecayGroups:
      return "a list of {pattern: …, weight_decay: …}";
    case Type::kTrainSources:
      return "a string, a list of strings or a list of {files: …, weight: …}";
  }
  return "";
}

Value ParseValue(Type type, const std::string& path, const Tree& tree) {
  switch (type) {
    case Type::kBool:
      return ParseBool(type, path, tree);
    case Type::kInt:
      return ParseInt(path, tree);
    case Type::kFloat:
      return FloatOf(type, path, tree);
    case Type::kString:
    case Type::kEnum:
      return ScalarOf(type, path, tree);
    case Type::kPair:
      return ParsePair(path, tree);
    case Type::kStringList:
      return ParseStringList(path, tree);
    case Type::kFloatList:
      return ParseFloatList(path, tree);
    case Type::kMemorySize: {
      MemorySize size;
      if (!ParseMemorySize(ScalarOf(type, path, tree), &size)) Expected(TypeText(type), path, tree);
      return size;
    }
    case Type::kAutoOrInt: {
      if (ScalarOf(type, path, tree) == "auto") return std::monostate();
      const std::optional<int64_t> value = ParseNumber<int64_t>(tree.text);
      if (!value || tree.quoted) Expected(TypeText(type), path, tree);
      return *value;
    }
    case Type::kAutoOrBool: {
      std::string text = ScalarOf(type, path, tree);
      if (text != "auto") text = std::get<bool>(ParseBool(type, path, tree)) ? "true" : "false";
      return text;
    }
    case Type::kFolderOrBool: {
      const std::string& text = ScalarOf(type, path, tree);
      if (text.empty() || (text == "false" && !tree.quoted)) return std::string();
      return text;
    }
    case Type::kWeightDecayGroups:
      return ParseGroups(path, tree);
    case Type::kTrainSources:
      return ParseSources(path, tree);
  }
  return std::monostate();
}

std::string ScalarText(const std::string& text) {
  // A scalar needs no quotes only if no parser could read it as a number, a YAML keyword or a
  // comment.
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  bool plain = !text.empty() && (letter(text[0]) || text[0] == '/' || text[0] == '_');
  for (const char c : text) {
    plain = plain &&
            (letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '/' || c == '.' || c == '-');
  }
  for (const char* word :
       {"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"}) {
    plain = plain && text != word;
  }
  if (plain) return text;
  std::string result = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (text.compare(i, 2, "${") == 0) {
      result += "$$";  // "$" alone would begin a variable
    } else if (byte == '\n') {
      result += "\\n";
    } else if (byte == '"' || byte == '\\') {
      result += {'\\', text[i]};
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += text[i];
    }
  }
  return result + "\"";
}

namespace {

struct Printer {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return ScalarText(value); }
  std::string operator()(const std::vector<std::string>& values) const {
    std::vector<std::string> items;
    for (const std::string& value : values) items.push_back(ScalarText(value));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::string operator()(const std::vector<double>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::array<double, 2>& pair) const {
    return fmt::format("[{}, {}]", pair[0], pair[1]);
  }
  std::string operator()(const MemorySize& size) const { return ToText(size); }
  std::string operator()(const std::vector<WeightDecayGroup>& groups) const {
    std::vector<std::string> items;
    for (const WeightDecayGroup& group : groups) {
      items.push_back(fmt::format("{{pattern: {}, weight_decay: {}}}", ScalarText(group.pattern),
                                  group.weight_decay));
    }
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::string operator()(const std::vector<TrainSource>& sources) const {
    if (sources.size() == 1 && sources[0].weight == 1) return (*this)(sources[0].files);
    std::vector<std::string> items;
    for (const TrainSource& source : sources) {
      items.push_back(
          fmt::format("{{files: {}, weight: {}}}", (*this)(source.files), source.weight));
    }
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
};

}  // namespace

std::string ToText(Type type, const Value& value) {
  if (type == Type::kAutoOrInt && std::holds_alternative<std::monostate>(value)) return "auto";
  if (type == Type::kAutoOrBool) return std::get<std::string>(value);
  if (type == Type::kFolderOrBool && value == Value(std::string())) return "false";
  return std::visit(Printer{}, value);
}

}  // namespace plimsoll::config
