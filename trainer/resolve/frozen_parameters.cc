// Finds the parameters that train.freeze selects, by the model's names or by those of its
// checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/glob.h"
#include "base/spelling.h"
#include "models/checkpoint_parts.h"
#include "trainer/resolve/compile_from.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;
using models::Part;

constexpr const char* kKey = "train.freeze";

std::vector<std::string> NamesOf(const models::Model& model) {
  std::vector<std::string> names;
  for (const models::ParameterInfo& parameter : model.parameters()) names.push_back(parameter.name);
  return names;
}

// The tensors of a checkpoint that contain the model's parameters, in the model's order, without
// state tensors.
std::vector<Part> PartsOfParameters(const models::Model& model) {
  const std::vector<std::string> names = NamesOf(model);
  const std::set<std::string> parameters(names.begin(), names.end());
  std::vector<Part> parts = models::PartsOf(model);
  std::erase_if(parts, [&](const Part& part) { return !parameters.contains(part.parameter.name); });
  return parts;
}

bool Matches(const std::string& pattern, const Part& part, const std::string& prefix) {
  if (MatchesGlob(pattern, part.name)) return true;
  if (part.name.starts_with(prefix) && MatchesGlob(pattern, part.name.substr(prefix.size()))) {
    return true;
  }
  return std::ranges::any_of(part.copies,
                             [&](const std::string& copy) { return MatchesGlob(pattern, copy); });
}

// The first few names: "embed.token.weight, embed.position.weight, block.0.norm_1.weight, …"
std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  const size_t shown = std::min(kShown, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     shown < names.size() ? ", …" : "");
}

[[noreturn]] void RefuseUnknown(const RunConfig& config, const models::Model& model,
                                const std::vector<Part>& parts, const std::string& pattern) {
  const std::vector<std::string> own = NamesOf(model);
  std::vector<std::string> stored;
  for (const Part& part : parts) stored.push_back(part.name);
  const std::string others =
      own == stored ? "" : fmt::format(" and, in checkpoints, {}", FirstOf(stored));
  throw config.Error(kKey, fmt::format("no parameter matches '{}'; there are {}{} (plimsoll plan "
                                       "--parameters lists all)",
                                       Shortened(pattern), FirstOf(own), others));
}

// Freezes the parameters whose tensors are all named. Throws a UserError if only some of a
// parameter's tensors are.
void FreezeWhole(const RunConfig& config, const std::vector<Part>& parts,
                 const std::map<std::string, std::string>& pattern_of,
                 std::set<std::string>& frozen) {
  // Maps a parameter to its tensors that no pattern names.
  std::map<std::string, std::vector<std::string>> missing;
  for (const Part& part : parts) {
    if (!pattern_of.contains(part.name)) missing[part.parameter.name].push_back(part.name);
  }
  for (const Part& part : parts) {
    const std::string& parameter = part.parameter.name;
    const auto pattern = pattern_of.find(part.name);
    if (pattern == pattern_of.end() || frozen.contains(parameter)) continue;
    if (const auto found = missing.find(parameter); found != missing.end()) {
      throw config.Error(
          kKey, fmt::format("'{}' names {}, which is a part of the parameter {} together with {}; "
                            "name all of them, or none",
                            Shortened(pattern->second), part.name, parameter,
                            fmt::join(found->second, " and ")));
    }
    frozen.insert(parameter);
  }
}

// Throws a UserError unless each objective has a parameter to train, because each has an update.
void RequireSomeTrained(const RunConfig& config, const models::Model& model,
                        const std::set<std::string>& frozen) {
  for (const models::Objective& objective : model.objectives()) {
    if (std::ranges::any_of(model.parameters(), [&](const auto& parameter) {
          return MatchesAnyGlob(objective.parameters, parameter.name) &&
                 !frozen.contains(parameter.name);
        })) {
      continue;
    }
    throw config.Error(kKey, fmt::format("leaves {}nothing to train; name fewer parameters",
                                         objective.name.empty()
                                             ? ""
                                             : fmt::format("the objective '{}' ", objective.name)));
  }
}

}  // namespace

std::vector<std::string> FrozenFrom(const RunConfig& config, const models::Model& model) {
  if (config.train.freeze.empty()) return {};
  const std::vector<Part> parts = PartsOfParameters(model);
  const std::string prefix = model.checkpoint_table().prefix;
  std::set<std::string> frozen;
  // Maps a checkpoint's tensor name to the pattern that matches it.
  std::map<std::string, std::string> pattern_of;
  for (const std::string& pattern : config.train.freeze) {
    bool own = false, stored = false;
    for (const std::string& name : NamesOf(model)) {
      if (!MatchesGlob(pattern, name)) continue;
      own = true;
      frozen.insert(name);
    }
    for (const Part& part : parts) {
      if (own || !Matches(pattern, part, prefix)) continue;
      stored = true;
      pattern_of.emplace(part.name, pattern);
    }
    if (!own && !stored) RefuseUnknown(config, model, parts, pattern);
  }
  FreezeWhole(config, parts, pattern_of, frozen);
  RequireSomeTrained(config, model, frozen);
  return {frozen.begin(), frozen.end()};
}

}  // namespace plimsoll::trainer
