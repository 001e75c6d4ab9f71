#include "trainer/config/overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/input_file.h"
#include "base/spelling.h"
#include "trainer/config/schema.h"
#include "trainer/config/shipped.h"
#include "trainer/config/suggest.h"

namespace plimsoll::config {
namespace {

constexpr size_t kMaxChain = 16;  // longest chain of files that extend one another
constexpr int kMaxFiles = 64;     // most files in all, because a file may extend several

// Pairs of keys that are two forms of one setting: setting one in a later layer removes the other
// from earlier layers. Within one layer both may be set if they agree (derived_values.cc checks).
constexpr const char* kAlternatives[][2] = {
    {"data.train", "data.synthetic"},
    {"train.global_batch", "train.global_batch_tokens"},
    {"train.global_batch", "train.accumulate"},
    {"train.global_batch_tokens", "train.accumulate"},
    {"schedule.decay_fraction", "schedule.decay_steps"},
};

// Keys that no longer exist, and their replacements.
constexpr const char* kRetired[][2] = {
    {"train.eval_batches",
     "is train.eval_sequences now, which counts sequences and not micro-batches; write "
     "eval_batches times micro_batch there (0 is still all held-out data)"},
};

bool IsFalse(const Tree& tree) { return tree.kind == Tree::Kind::kScalar && tree.text == "false"; }

[[noreturn]] void Unknown(const std::string& path, const std::string& origin) {
  for (const auto& [retired, instead] : kRetired) {
    if (path == retired) throw UserError(fmt::format("{}: {}: {}", origin, path, instead));
  }
  const std::string shown = ShowKey(path);
  // The name of an optimizer's scheduler means schedule.name.
  const std::string section = path.substr(path.rfind('.') + 1) + ".name";
  const std::string nearest = FindKey(section) != nullptr ? section : NearestKey(path);
  throw UserError(fmt::format("{}: {}: unknown key{}", origin, shown,
                              nearest.empty() ? "; plimsoll config --reference lists all keys"
                                              : fmt::format(", did you mean {}?", nearest)));
}

void RequireMap(const TreeEntry& entry, const std::string& path, const char* of) {
  if (entry.value.kind == Tree::Kind::kMap) return;
  throw UserError(
      fmt::format("{}: {}: expected {}, got {}", entry.origin, path, of, Describe(entry.value)));
}

// Collects the keys of objectives: "objectives: {critic: {optimizer: {lr: 1e-3}}}".
void CollectObjectives(const TreeEntry& section, KeyTrees& layer, MistakeList& mistakes) {
  for (const TreeEntry& objective : section.value.entries) {
    const std::string path = section.key + "." + objective.key;
    RequireMap(objective, path, "the sections optimizer and schedule");
    for (const TreeEntry& part : objective.value.entries) {
      const std::string part_path = path + "." + part.key;
      if (part.key != "optimizer" && part.key != "schedule") {
        throw UserError(
            fmt::format("{}: {}: unknown section; an objective has optimizer and "
                        "schedule",
                        part.origin, part_path));
      }
      RequireMap(part, part_path, "keys of this section");
      for (const TreeEntry& entry : part.value.entries) {
        const std::string key = part_path + "." + entry.key;
        if (!FindObjectiveKey(key)) {
          mistakes.Try([&] { Unknown(part.key + "." + entry.key, entry.origin); });
          continue;
        }
        Tree& setting = layer[key] = entry.value;
        setting.origin = entry.origin;
      }
    }
  }
}

bool IsAuto(const Tree& tree) { return tree.kind == Tree::Kind::kScalar && tree.text == "auto"; }

// Sets each key of a section that may be auto, for "parallel: auto".
void SetAllAuto(const std::string& section, const Tree& value, const std::string& origin,
                KeyTrees& layer) {
  for (const Key& key : Schema()) {
    if (key.Section() != section || !key.MayBeAuto()) continue;
    Tree& setting = layer[key.path] = value;
    setting.origin = origin;
  }
}

// The key as nested maps: "amp: {fp8: {recipe: …}}".
std::string AsMaps(const Key& key) {
  std::string text;
  const std::vector<std::string> words = key.Words();
  for (const std::string& word : words) text += (text.empty() ? "" : ": {") + word;
  return text + ": …" + std::string(words.size() - 1, '}');
}

[[noreturn]] void RefuseDots(const Key& key, const TreeEntry& entry) {
  throw UserError(fmt::format("{}: {}: dotted keys are for --set; write {}", entry.origin,
                              entry.key, AsMaps(key)));
}

// Collects the keys of a map. `path` is that of a section, or of a map within a section.
void CollectMap(const TreeEntry& map, const std::string& path, KeyTrees& layer,
                MistakeList& mistakes) {
  if (map.value.kind == Tree::Kind::kNull) return;  // all lines of the section are commented out
  RequireMap(map, path, "keys of this section");
  for (const TreeEntry& entry : map.value.entries) {
    const std::string inner = path + "." + entry.key;
    mistakes.Try([&] {
      if (IsNestedMap(inner)) return CollectMap(entry, inner, layer, mistakes);
      const Key* const key = FindKey(inner);
      if (key == nullptr) Unknown(inner, entry.origin);
      if (entry.key.find('.') != std::string::npos) RefuseDots(*key, entry);
      Tree& setting = layer[inner] = entry.value;
      setting.origin = entry.origin;
    });
  }
}

void CollectSection(const TreeEntry& section, KeyTrees& layer, MistakeList& mistakes) {
  if (IsAuto(section.value) && MayBeAuto(section.key)) {
    return SetAllAuto(section.key, section.value, section.origin, layer);
  }
  if (section.key == kObjectives && section.value.kind == Tree::Kind::kMap) {
    return CollectObjectives(section, layer, mistakes);
  }
  CollectMap(section, section.key, layer, mistakes);
}

void CollectEntry(const TreeEntry& entry, KeyTrees& layer, MistakeList& mistakes) {
  if (IsSection(entry.key)) return CollectSection(entry, layer, mistakes);
  const Key* const key = FindKey(entry.key);
  if (key == nullptr) Unknown(entry.key, entry.origin);
  if (!key->Section().empty()) RefuseDots(*key, entry);
  Tree& setting = layer[entry.key] = entry.value;
  setting.origin = entry.origin;
}

// Collects the keys of one document, except `extends`.
void Collect(const Tree& document, KeyTrees& layer, MistakeList& mistakes) {
  for (const TreeEntry& entry : document.entries) {
    if (entry.key == "extends") continue;
    mistakes.Try([&] { CollectEntry(entry, layer, mistakes); });
  }
}

void Apply(const KeyTrees& layer, KeyTrees& settings) {
  for (const auto& [first, second] : kAlternatives) {
    const auto replaces = [&](const char* key, const char* other) {
      const auto found = layer.find(key);
      return found != layer.end() && layer.count(other) == 0 &&
             found->second.kind != Tree::Kind::kNull && !IsFalse(found->second);
    };
    if (replaces(first, second)) settings.erase(second);
    if (replaces(second, first)) settings.erase(first);
  }
  for (const auto& [path, value] : layer) {
    if (value.kind != Tree::Kind::kNull) {
      settings[path] = value;
    } else if (settings.erase(path) == 0) {
      // null removes the value of an earlier layer; without an earlier value, null is an error.
      throw UserError(
          fmt::format("{}: {}: has no value; give one or remove it", value.origin, path));
    }
  }
}

class Reader {
 public:
  Reader(const FileReader& read, MistakeList& mistakes) : read_(read), mistakes_(mistakes) {}

  void Add(const std::string& text, const std::string& name, KeyTrees& settings) {
    Tree document = ParseYaml(text, name);
    ExpandEnvironment(document);
    if (document.kind != Tree::Kind::kMap && document.kind != Tree::Kind::kNull) {
      throw UserError(fmt::format("{}: expected a map of sections (model: …), got {}",
                                  document.origin.empty() ? name : document.origin,
                                  Describe(document)));
    }
    chain_.push_back(std::filesystem::path(name).lexically_normal().string());
    for (const TreeEntry& entry : document.entries) {
      if (entry.key != "extends") continue;
      const auto bases = ParseValue(Type::kStringList, "extends", entry.value);
      for (const std::string& base : std::get<std::vector<std::string>>(bases)) {
        Extend(base, name, entry.origin, settings);
      }
    }
    KeyTrees layer;
    Collect(document, layer, mistakes_);
    Apply(layer, settings);
    chain_.pop_back();
  }

 private:
  void Extend(const std::string& base, const std::string& name, const std::string& origin,
              KeyTrees& settings) {
    if (!read_) throw UserError(origin + ": extends: only a file can extend another");
    if (base.find_first_of("\n\r\t") != std::string::npos) {
      throw UserError(fmt::format("{}: extends: expected a path, got {}", origin, Quote(base)));
    }
    std::string path =
        (std::filesystem::path(name).parent_path() / base).lexically_normal().string();
    if (std::find(chain_.begin(), chain_.end(), path) != chain_.end()) {
      const std::string chain = fmt::format("{} → {}", fmt::join(chain_, " → "), path);
      throw UserError(fmt::format("{}: extends: {} extends itself ({})", origin, Shortened(path),
                                  Shortened(chain)));
    }
    if (chain_.size() >= kMaxChain || ++files_ > kMaxFiles) {
      throw UserError(fmt::format("{}: extends: more than {} files in a row or {} in all", origin,
                                  kMaxChain, kMaxFiles));
    }
    std::string text;
    try {
      text = read_(path);
    } catch (const NoSuchFile& e) {
      // A path configs/… is first looked up relative to this file, then among the shipped files.
      const ShippedFile* const shipped = FindShipped(base);
      if (shipped == nullptr) throw UserError(fmt::format("{}: extends: {}", origin, e.what()));
      path = shipped->path;
      text = shipped->text;
    } catch (const UserError& e) {
      throw UserError(fmt::format("{}: extends: {}", origin, Shortened(e.what())));
    }
    Add(text, path, settings);
  }

  const FileReader& read_;
  MistakeList& mistakes_;
  std::vector<std::string> chain_;
  int files_ = 0;
};

// The text of a --set value as a tree, for this type of key: strings are taken literally, so that a
// prompt needs no second pair of quotes; everything else is YAML.
Tree ParseSetting(const Key& key, const std::string& text) {
  const bool list = key.type == Type::kStringList || key.type == Type::kTrainSources;
  const bool stringlike = list || key.type == Type::kString || key.type == Type::kFolderOrBool;
  const char first = text.empty() ? ' ' : text[0];
  const bool yaml = first == '"' || first == '\'' || (list && first == '[') || text == "null";
  if (!stringlike || yaml) {
    try {
      return ParseYaml(text, "--set", /*numbered=*/false);
    } catch (const UserError& e) {
      // Drops "--set" from the front of the error's message.
      throw UserError("--set: " + key.path + std::string(e.what()).substr(5));
    }
  }
  CheckText(text, "--set: " + key.path);
  Tree tree;
  tree.kind = Tree::Kind::kScalar;
  tree.text = text;
  return tree;
}

void AddSet(const std::string& set, KeyTrees& layer) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(
        fmt::format("--set: {}: write key=value, as in --set train.steps=100", Quote(set)));
  }
  const std::string path = set.substr(0, equals);
  if (MayBeAuto(path)) {
    const Tree value = ParseYaml(set.substr(equals + 1), "--set", /*numbered=*/false);
    if (IsAuto(value)) return SetAllAuto(path, value, "--set", layer);
  }
  const Key* key = FindMeantKey(path);
  if (key == nullptr && (IsSection(path) || IsNestedMap(path))) {
    throw UserError(fmt::format(
        "--set: {}: is a section; name one of its keys, as in --set train.steps=100", path));
  }
  if (path == "extends") throw UserError("--set: extends: belongs in the file");
  if (key == nullptr) Unknown(path, "--set");
  Tree& setting = layer[path] = ParseSetting(*key, set.substr(equals + 1));
  setting.origin = "--set";
  ExpandEnvironment(setting);
}

void AddSets(const std::vector<std::string>& sets, KeyTrees& settings, MistakeList& mistakes) {
  KeyTrees layer;
  for (const std::string& set : sets) mistakes.Try([&] { AddSet(set, layer); });
  Apply(layer, settings);
}

}  // namespace

KeyTrees ReadLayers(const std::string& text, const std::string& name, const FileReader& read,
                    const std::vector<std::string>& sets, MistakeList& mistakes) {
  KeyTrees settings;
  Reader(read, mistakes).Add(text, name, settings);
  AddSets(sets, settings, mistakes);
  return settings;
}

std::string ReadFile(const std::string& path) {
  constexpr size_t kMaxBytes = 1 << 20;
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    const ShippedFile* const shipped = FindShipped(path);
    if (shipped == nullptr) throw NoSuchFile(path + ": no such file");
    return std::string(shipped->text);
  }
  std::string text = ReadInput(path, kMaxBytes + 1);
  if (text.size() > kMaxBytes)
    throw UserError(path + ": more than 1 MiB; a configuration is a page of text");
  return text;
}

}  // namespace plimsoll::config
