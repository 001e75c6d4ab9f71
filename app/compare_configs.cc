#include "app/compare_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/config/schema.h"
#include "trainer/settle/from_config.h"

namespace plimsoll::trainer {
namespace {

config::RunConfig Load(std::string path, const std::vector<std::string>& sets) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path += "/config.yaml";
  return LoadRun(path, sets).config;
}

std::string TextOf(const config::Key& key, const config::RunConfig& config) {
  return key.Applies(config) ? key.Text(config) : "";
}

}  // namespace

std::vector<ConfigDifference> CompareConfigs(const config::RunConfig& left,
                                             const config::RunConfig& right) {
  std::vector<ConfigDifference> differences;
  for (const config::Key& key : config::Schema()) {
    ConfigDifference difference{key.path, TextOf(key, left), TextOf(key, right)};
    if (difference.left != difference.right) differences.push_back(std::move(difference));
  }
  return differences;
}

std::string ConfigComparison(const std::string& left, const std::string& right,
                             const std::vector<std::string>& sets, bool json) {
  const auto differences = CompareConfigs(Load(left, sets), Load(right, sets));
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const auto value = [](const std::string& text) {
      return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
    };
    for (const auto& [key, a, b] : differences) {
      list.push_back({{"key", key}, {"left", value(a)}, {"right", value(b)}});
    }
    return list.dump(1) + "\n";
  }
  if (differences.empty()) return fmt::format("{} and {} resolve to the same\n", left, right);
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  size_t key_width = 0, left_width = left.size();
  for (const auto& [key, a, b] : differences) {
    key_width = std::max(key_width, key.size());
    left_width = std::max(left_width, shown(a).size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {}\n", "key", key_width, left, left_width, right);
  for (const auto& [key, a, b] : differences) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", key, key_width, shown(a), left_width, shown(b));
  }
  return text;
}

}  // namespace plimsoll::trainer
