#include "trainer/config/key_cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/config/owner_keys.h"

namespace plimsoll::config {

std::string TypeCell(const Key& key) {
  switch (key.type) {
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "integer";
    case Type::kFloat:
      return "number";
    case Type::kString:
      return "string";
    case Type::kEnum:
      return fmt::format("`{}`", fmt::join(key.choices, "`, `"));
    case Type::kPair:
      return "[number, number]";
    case Type::kStringList:
      return "string or list";
    case Type::kFloatList:
      return "number or list";
    case Type::kMemorySize:
      return "size";
    case Type::kAutoOrInt:
      return "`auto` or integer";
    case Type::kAutoOrBool:
      return "`auto` or bool";
    case Type::kFolderOrBool:
      return "folder or bool";
    case Type::kWeightDecayGroups:
      return "list of {pattern, weight_decay}";
    case Type::kTrainSources:
      return "string, list, or list of {files, weight}";
  }
  return "";
}

std::string DefaultCell(const Key& key) {
  if (!key.derived.empty()) return key.derived;
  const std::string text = ToText(key.type, key.default_value);
  return text.empty() ? "not set" : fmt::format("`{}`", text);
}

std::string MeaningCell(const Key& key) {
  std::string text = key.doc;
  if (!key.when_key.empty()) {
    text += fmt::format(" Only with `{}`: `{}`.", key.when_key, fmt::join(key.when_values, "`, `"));
  }
  for (const auto& [word, choice] : key.also) {
    text += fmt::format(" `{}` means `{}`.", word, choice);
  }
  const std::string range = RangeText(key);
  if (!range.empty()) text += fmt::format(" Range: {}.", range);
  return text;
}

std::string OwnersText(const Key& key) {
  if (key.owners.empty() || key.owners.size() == OwnersOf(key.Section()).size()) return "";
  return fmt::format("`{}`: `{}`", key.Chooser(), fmt::join(key.owners, "`, `"));
}

std::string KeyTable(const std::vector<const Key*>& keys) {
  std::string text = "\n| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const Key* key : keys) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", key->path, TypeCell(*key), DefaultCell(*key),
                        MeaningCell(*key));
  }
  return text;
}

}  // namespace plimsoll::config
