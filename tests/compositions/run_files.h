// What training leaves behind, to compare runs by.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll {

// Of a run's directory: what it says of each step (losses, norms, loss scale, learning rate).
std::string NumbersOf(const std::string& run);

// The bytes of the weights, or of the adapters, that it exported at the end; empty: it has none.
std::string WeightsOf(const std::string& run);

// plan.json, summary.json.
nlohmann::json JsonOf(const std::string& run, const std::string& file);

}  // namespace plimsoll
