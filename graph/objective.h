// What a step trains is one or several objectives: a loss each, with parameters and an optimizer of
// its own. Their tensors have their name.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::graph {

// The tensor `name` of an objective: "lr" of the only one, which has no name; "critic.lr" of the
// objective "critic".
inline std::string OfObjective(std::string_view objective, std::string_view name) {
  return objective.empty() ? std::string(name) : std::string(objective) + "." + std::string(name);
}

}  // namespace plimsoll::graph
