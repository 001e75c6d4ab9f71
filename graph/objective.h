// A step trains one or several objectives: each is a loss with its own parameters and optimizer.
// The names of an objective's tensors begin with the objective's name.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::graph {

// The name of an objective's tensor `name`: "lr" for the only objective, which has no name;
// "critic.lr" for the objective "critic".
inline std::string OfObjective(std::string_view objective, std::string_view name) {
  return objective.empty() ? std::string(name) : std::string(objective) + "." + std::string(name);
}

}  // namespace plimsoll::graph
