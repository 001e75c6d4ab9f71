// Loads a run's configuration: file, extends, --set, environment, schema, cross-checks.
//
//   Loaded loaded = Load("run.yaml", {"train.steps=100"});
//   loaded.config.optimizer.lr …
//
// Every mistake is a UserError of one line that starts with its place: "run.yaml:12: amp.dtpye: …".
#pragma once

#include <string>
#include <vector>

#include "trainer/config/file_layers.h"
#include "trainer/config/run_config.h"

namespace plimsoll::config {

struct Loaded {
  RunConfig config;
  std::string resolved_yaml;          // complete; loads to the same configuration
  std::vector<std::string> warnings;  // keys without effect, one line each

  // Where a key was given; for mistakes that are found later.
  const std::string& Origin(const std::string& key) const { return config.Origin(key); }
};

// `sets` are "key=value"; `ranks` is how many were started, of which parallel.data: auto takes what
// other axes leave.
Loaded Load(const std::string& path, const std::vector<std::string>& sets = {}, int64_t ranks = 1);

// The same for text in hand. `read` serves `extends`; without it nothing on disk is touched and
// extends is refused.
Loaded LoadText(const std::string& text, const std::string& name,
                const std::vector<std::string>& sets = {}, int64_t ranks = 1,
                const FileReader& read = nullptr);

// Every key that means something in this configuration, with its final value. Keys whose value
// follows from others are comments, so that they still follow under other ranks or steps.
std::string ToYaml(const RunConfig& config);

}  // namespace plimsoll::config
