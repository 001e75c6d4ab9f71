// Loads a run's configuration: file, extends, --set, environment, schema, cross-checks.
//
//   Loaded loaded = Load("run.yaml", {"train.steps=100"});
//   loaded.config.optimizer.lr …
//
// Every mistake is a line that starts with its place: "run.yaml:12: amp.dtpye: …". One UserError
// lists all mistakes of a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/config/overrides.h"
#include "trainer/config/run_config.h"
#include "trainer/config/value.h"

namespace plimsoll::config {

struct Loaded {
  RunConfig config;
  std::string resolved_yaml;          // complete; loads to the same configuration
  std::vector<std::string> warnings;  // keys without effect, one line each
  std::vector<std::string> notes;     // values that come from elsewhere, one line each

  // The place where a key was given; for mistakes found after loading.
  const std::string& Origin(const std::string& key) const { return config.Origin(key); }
};

// Loads the configuration from a file. `sets` are "key=value". `ranks` is the number of ranks, from
// which parallel.data: auto follows.
Loaded Load(const std::string& path, const std::vector<std::string>& sets = {},
            const RankCount& ranks = 1);

// The same for a text. `read` reads the files of `extends`; without `read`, extends is refused and
// nothing on disk is read.
Loaded LoadText(const std::string& text, const std::string& name,
                const std::vector<std::string>& sets = {}, const RankCount& ranks = 1,
                const FileReader& read = nullptr);

// The value of a key, and where it is given: in a text, in its `extends`, or in `sets`.
struct GivenKey {
  Value value;
  std::string origin;
};
// Finds one key, whatever mistakes the configuration has elsewhere. Nothing if the key is not given
// or cannot be read.
std::optional<GivenKey> FindGiven(const std::string& text, const std::string& name,
                                  const std::vector<std::string>& sets, const std::string& key);

// Every key that applies to this configuration, with its final value. Keys whose value follows from
// other keys are written as comments, so that they are derived again for other ranks or steps.
std::string ToYaml(const RunConfig& config);
// The section `objectives` with each objective's own keys; empty without objectives.
std::string ObjectivesYaml(const RunConfig& config);

}  // namespace plimsoll::config
