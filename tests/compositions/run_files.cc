#include "tests/compositions/run_files.h"

#include <fstream>
#include <sstream>

#include "tests/support/temp_folder.h"

namespace plimsoll {

using nlohmann::json;

std::string NumbersOf(const std::string& run) {
  std::string numbers;
  std::istringstream rows(ReadFile(run + "/metrics.jsonl"));
  for (std::string line; std::getline(rows, line);) {
    const json row = json::parse(line);
    for (const auto& [key, value] : row.items()) {
      if (key == "step" || key == "lr" || key == "skipped" || key.ends_with("loss") ||
          key.ends_with("grad_norm") || key.ends_with("loss_scale") ||
          key.find("rewards_") != key.npos || key.find("logps_") != key.npos) {
        numbers += key + "=" + value.dump() + " ";
      }
    }
    numbers += "\n";
  }
  return numbers;
}

std::string WeightsOf(const std::string& run) {
  for (const char* file : {"/model/model.safetensors", "/adapter/adapter_model.safetensors"}) {
    if (std::ifstream(run + file).good()) return ReadFile(run + file);
  }
  return "";
}

json JsonOf(const std::string& run, const std::string& file) {
  return json::parse(ReadFile(run + "/" + file));
}

}  // namespace plimsoll
