#include "adapters/modules_to_save.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "adapters/lora.h"
#include "base/error.h"
#include "base/spelling.h"
#include "models/checkpoint_parts.h"

namespace plimsoll::adapters {
namespace {

using models::ParameterInfo;
using models::Part;

// The name of the module that contains a tensor or a module; empty: no module contains it.
std::string ContainerOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? "" : name.substr(0, dot);
}

bool LiesIn(const std::string& name, const std::string& module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

// PEFT ties a head of this name to the token embedding.
constexpr std::string_view kTiedHead = "lm_head";

bool IsTiedHead(const std::string& tensor) { return ContainerOf(tensor) == kTiedHead; }

bool LiesInNamed(const std::string& name, const std::string& tensor) {
  for (std::string module = ContainerOf(tensor); !module.empty(); module = ContainerOf(module)) {
    if (MeansModule(name, module)) return true;
  }
  return false;
}

// Whether the module that `name` means contains the part, or the tied head that has the same
// weight.
bool Means(const std::string& name, const Part& part) {
  return LiesInNamed(name, part.name) ||
         std::ranges::any_of(part.copies, [&](const std::string& copy) {
           return IsTiedHead(copy) && LiesInNamed(name, copy);
         });
}

// The tensors of the model's parameters; states belong to no adapter.
std::vector<Part> PartsOfParameters(const models::Model& model) {
  std::vector<Part> parts = models::PartsOf(model);
  std::erase_if(parts, [&](const Part& part) {
    return std::ranges::find(model.parameters(), part.parameter.name, &ParameterInfo::name) ==
           model.parameters().end();
  });
  return parts;
}

// The names of the modules outside of blocks, for messages. Modules of blocks are left out: they
// are many.
std::set<std::string> ModulesOutside(std::span<const Part> parts) {
  std::set<std::string> names;
  for (const Part& part : parts) {
    if (!part.parameter.name.starts_with("block.")) names.insert(ContainerOf(part.name));
  }
  return names;
}

// The name of a tensor in `module` that is not one of `saved`: the model's, or a constant or copy
// that files may have. Empty if all tensors of the module are in `saved`.
std::string OtherIn(const std::string& module, const models::Model& model,
                    std::span<const Part> parts, const std::set<std::string>& saved) {
  for (const Part& part : parts) {
    if (saved.contains(part.parameter.name)) continue;
    if (LiesIn(part.name, module)) return part.name;
    for (const std::string& copy : part.copies) {
      if (LiesIn(copy, module)) return copy;
    }
  }
  const models::CheckpointTable table = model.checkpoint_table();
  for (const std::string& ignored : table.ignored) {
    for (const std::string& name : {ignored, table.prefix + ignored}) {
      if (LiesIn(name, module)) return name;
    }
  }
  return "";
}

}  // namespace

std::vector<ParameterInfo> SelectSaved(const models::Model& model,
                                       const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::vector<Part> parts = PartsOfParameters(model);
  std::map<std::string, std::vector<std::string>> missing;  // unselected tensors, by parameter
  std::set<std::string> selected;                           // selected parameters
  for (const Part& part : parts) {
    const bool wanted =
        std::ranges::any_of(names, [&](const auto& name) { return Means(name, part); });
    if (wanted) {
      selected.insert(part.parameter.name);
    } else {
      missing[part.parameter.name].push_back(ContainerOf(part.name));
    }
  }
  for (const std::string& name : names) {
    if (std::ranges::any_of(parts, [&](const Part& part) { return Means(name, part); })) continue;
    throw UserError(fmt::format("no module is called '{}'; outside of blocks there are {}",
                                Shortened(name), fmt::join(ModulesOutside(parts), ", ")));
  }
  for (const std::string& parameter : selected) {
    const auto found = missing.find(parameter);
    if (found == missing.end()) continue;
    throw UserError(fmt::format(
        "the modules that are named make one weight with {}; name all of them, or adapt "
        "them by lora.targets",
        fmt::join(found->second, " and ")));
  }
  std::vector<ParameterInfo> saved;
  for (const ParameterInfo& parameter : model.parameters()) {
    if (selected.contains(parameter.name)) saved.push_back(parameter);
  }
  ModulesOf(model, saved);  // throws if no list of modules holds exactly these parameters
  return saved;
}

std::vector<std::string> ModulesOf(const models::Model& model,
                                   std::span<const ParameterInfo> saved) {
  if (saved.empty()) return {};
  const std::vector<Part> parts = PartsOfParameters(model);
  std::set<std::string> names, modules;
  for (const ParameterInfo& parameter : saved) names.insert(parameter.name);
  for (const Part& part : parts) {
    if (!names.contains(part.parameter.name)) continue;
    const std::string module = ContainerOf(part.name);
    if (const std::string other = OtherIn(module, model, parts, names); !other.empty()) {
      throw UserError(
          fmt::format("{} cannot be trained alone: its module {} contains {} as well, and PEFT "
                      "keeps modules as one; train the model without lora.rank",
                      part.name, module, other));
    }
    modules.insert(module);
    for (const std::string& copy : part.copies) {
      if (!IsTiedHead(copy)) {
        throw UserError(
            fmt::format("{} is one weight with {}, which PEFT would part: it keeps a copy for one "
                        "of them; leave it out, or train the model without lora.rank",
                        module, ContainerOf(copy)));
      }
      modules.insert(ContainerOf(copy));
    }
  }
  std::vector<std::string> outermost;
  for (const std::string& module : modules) {
    const bool inside = std::ranges::any_of(
        modules, [&](const std::string& other) { return LiesIn(module, other); });
    if (!inside) outermost.push_back(module);
  }
  return outermost;
}

bool HasTiedHead(const models::Model& model, std::span<const ParameterInfo> saved) {
  if (saved.empty()) return false;
  return std::ranges::any_of(models::PartsOf(model), [&](const Part& part) {
    return std::ranges::any_of(part.copies, IsTiedHead) &&
           std::ranges::find(saved, part.parameter) != saved.end();
  });
}

}  // namespace plimsoll::adapters
