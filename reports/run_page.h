// report.html of a training run, refreshed while it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/history.h"

namespace plimsoll::reports {

// What is known of a run before its first step.
struct RunFacts {
  std::string title;
  std::string subtitle;
  int64_t steps = 0;                                               // that it will make
  nlohmann::ordered_json facts = nlohmann::ordered_json::array();  // [[name, value], …]
  std::string config;                                              // resolved YAML
  std::vector<std::string> objectives = {};  // that have names: their members are NAME.loss, …
  std::vector<std::string> metrics = {};     // members of rows beside those of every model
  // The held-out metric by which an evaluation is the best.
  std::string monitor = "loss";
  bool larger_is_better = false;
  nlohmann::ordered_json stack;  // MemoryStack()
  // At the peak, as bars: [{"name": …, "parts": {role: bytes}}, …].
  nlohmann::ordered_json by_block = nlohmann::ordered_json::array();
  nlohmann::ordered_json by_role = nlohmann::ordered_json::array();
  std::optional<int64_t> arena_budget;
};

class RunPage {
 public:
  RunPage(std::string path, RunFacts facts);

  // A row of metrics, of a step, an evaluation or a rollback. Refreshes the file when it is due:
  // every 10 seconds, less often where writing takes more than a hundredth of the time. Returns
  // what went wrong with that, or nothing.
  std::optional<std::string> Add(const nlohmann::ordered_json& row);

  // Writes the file now. `state`: kRunning, while which it reloads itself in browsers, or how it
  // ended.
  static constexpr char kRunning[] = "running";
  std::optional<std::string> Write(const std::string& state);

 private:
  using Clock = std::chrono::steady_clock;

  nlohmann::ordered_json Views(const std::string& state) const;

  std::string path_;
  RunFacts facts_;
  History steps_, evaluations_, energy_;
  nlohmann::ordered_json divergences_ = nlohmann::ordered_json::array();  // [[step, text], …]
  double best_eval_;
  Clock::time_point due_;
};

}  // namespace plimsoll::reports
