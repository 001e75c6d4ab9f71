#include "trainer/config/load.h"

#include <fmt/format.h>

#include "trainer/config/resolve.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {

Loaded LoadText(const std::string& text, const std::string& name,
                const std::vector<std::string>& sets, int64_t ranks, const FileReader& read) {
  Loaded loaded;
  loaded.config.file = name;
  for (const auto& [path, tree] : ReadLayers(text, name, read, sets)) {
    const Key& key = *FindKey(path);
    key.set(loaded.config, ParseKey(key, tree));
    loaded.config.origins[path] = tree.origin;
  }
  Resolve(loaded.config, ranks, loaded.warnings);
  loaded.resolved_yaml = ToYaml(loaded.config);
  return loaded;
}

Loaded Load(const std::string& path, const std::vector<std::string>& sets, int64_t ranks) {
  return LoadText(ReadFile(path), path, sets, ranks, ReadFile);
}

std::string ToYaml(const RunConfig& config) {
  std::string yaml, section;
  for (const Key& key : Schema()) {
    if (!key.Applies(config)) continue;
    const std::string text = ToText(key.type, key.get(config));
    if (text.empty()) continue;  // optional and not set
    if (key.path == "model.init_from" && config.model.init_from.empty()) continue;
    if (key.Section() != section) {
      section = key.Section();
      if (!section.empty()) yaml += section + ":\n";
    }
    const char* indent = section.empty() ? "" : "  ";
    if (Follows(config, key.path)) {
      yaml += fmt::format("{}# {}: {}  (follows)\n", indent, key.Name(), text);
    } else {
      yaml += fmt::format("{}{}: {}\n", indent, key.Name(), text);
    }
  }
  return yaml;
}

}  // namespace plimsoll::config
