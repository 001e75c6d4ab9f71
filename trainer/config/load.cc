#include "trainer/config/load.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "trainer/config/derived_values.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

using OwnValues = std::map<const Key*, Value>;

// Resolves a configuration with this objective alone. `config` must not be resolved yet.
ObjectiveConfig ResolveObjective(const RunConfig& config, const std::string& objective,
                                 const OwnValues& values, const RankCount& ranks) {
  RunConfig alone = config;
  ObjectiveConfig own;
  for (const auto& [key, value] : values) {
    key->set(alone, value);
    alone.origins[key->path] =
        config.Origin(std::string(kObjectives) + "." + objective + "." + key->path);
    own.own[key->path] = ToText(key->type, value);
  }
  std::vector<std::string> said_elsewhere;
  DeriveValues(alone, ranks, said_elsewhere);
  own.optimizer = alone.optimizer;
  own.schedule = alone.schedule;
  return own;
}

}  // namespace

Loaded LoadText(const std::string& text, const std::string& name,
                const std::vector<std::string>& sets, const RankCount& ranks,
                const FileReader& read) {
  Loaded loaded;
  loaded.config.file = name;
  std::map<std::string, OwnValues> objectives;
  MistakeList mistakes;
  for (const auto& [path, tree] : ReadLayers(text, name, read, sets, mistakes)) {
    loaded.config.origins[path] = tree.origin;
    mistakes.Try([&, &path = path, &tree = tree] {
      if (const std::optional<ObjectiveKey> own = FindObjectiveKey(path)) {
        objectives[own->objective][own->key] = ParseKey(*own->key, tree);
      } else {
        const Key& key = *FindKey(path);
        key.set(loaded.config, ParseKey(key, tree));
      }
    });
  }
  mistakes.Throw();
  for (const auto& [objective, values] : objectives) {
    loaded.config.objectives[objective] = ResolveObjective(loaded.config, objective, values, ranks);
  }
  DeriveValues(loaded.config, ranks, loaded.warnings);
  loaded.resolved_yaml = ToYaml(loaded.config);
  return loaded;
}

Loaded Load(const std::string& path, const std::vector<std::string>& sets, const RankCount& ranks) {
  return LoadText(ReadFile(path), path, sets, ranks, ReadFile);
}

std::optional<GivenKey> FindGiven(const std::string& text, const std::string& name,
                                  const std::vector<std::string>& sets, const std::string& key) {
  try {
    MistakeList others;
    const KeyTrees trees = ReadLayers(text, name, ReadFile, sets, others);
    const auto given = trees.find(key);
    if (given == trees.end()) return std::nullopt;
    return GivenKey{ParseKey(*FindKey(key), given->second), given->second.origin};
  } catch (const UserError&) {  // loading reports the error
    return std::nullopt;
  }
}

std::string ToYaml(const RunConfig& config) {
  std::string yaml;
  const Key* before = nullptr;
  for (const Key& key : Schema()) {
    if (!key.Applies(config)) continue;
    const std::string text = key.Text(config);
    if (text.empty()) continue;  // optional and not set
    if (config.train.steps_per_epoch == 0 && FollowsEpochs(config, key.path)) continue;
    if (key.path == "model.init_from" && config.model.init_from.empty()) continue;
    // Skips keys of the family that are unset because the weights' folder has not been read yet.
    const bool of_family = key.Section() == "model" && !key.owners.empty();
    if (of_family && !config.model.settings.Has(key.Name())) continue;
    const KeyLines lines = LinesOf(key, before);
    before = &key;
    yaml += lines.opening + lines.indent;
    if (Follows(config, key.path)) {
      yaml += fmt::format("# {}: {}  (follows)\n", lines.name, text);
    } else {
      yaml += fmt::format("{}: {}\n", lines.name, text);
    }
  }
  return yaml + ObjectivesYaml(config);
}

std::string ObjectivesYaml(const RunConfig& config) {
  std::string yaml;
  for (const auto& [name, objective] : config.objectives) {
    yaml += fmt::format("  {}:\n", ScalarText(name));
    std::string section;
    for (const auto& [path, text] : objective.own) {
      const Key& key = *FindKey(path);
      if (key.Section() != section) yaml += fmt::format("    {}:\n", section = key.Section());
      yaml += fmt::format("      {}: {}\n", key.Name(), text);
    }
  }
  return yaml.empty() ? "" : fmt::format("{}:\n{}", kObjectives, yaml);
}

}  // namespace plimsoll::config
