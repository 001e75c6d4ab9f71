// report.html of a training run, refreshed while the run continues.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/history.h"

namespace plimsoll::reports {

// Facts that are known before the run's first step.
struct RunFacts {
  std::string title;
  std::string subtitle;
  int64_t steps = 0;                                               // planned number of steps
  nlohmann::ordered_json facts = nlohmann::ordered_json::array();  // [[name, value], …]
  std::string config;                                              // resolved YAML
  std::vector<std::string> objectives = {};  // named objectives; their members are NAME.loss, …
  std::vector<std::string> metrics = {};     // members of rows that not every model has
  std::string unit = "token";  // what tokens_per_s of rows counts: "token" or "sample"
  // Metrics of evaluations that are drawn as matrices, and the meaning of their dimensions.
  struct Matrix {
    std::string metric, rows, columns;
  };
  std::vector<Matrix> matrices = {};
  // The names of a classifier's classes, by number, for matrices and mistakes. A class without a
  // name is shown by its number.
  std::vector<std::string> class_names = {};
  // The held-out metric that decides which evaluation is best.
  std::string monitor = "loss";
  bool larger_is_better = false;
  nlohmann::ordered_json stack;  // result of MemoryStack()
  // Bars of memory at the peak: [{"name": …, "parts": {role: bytes}}, …].
  nlohmann::ordered_json by_block = nlohmann::ordered_json::array();
  nlohmann::ordered_json by_role = nlohmann::ordered_json::array();
  std::optional<int64_t> arena_budget;
};

class RunPage {
 public:
  RunPage(std::string path, RunFacts facts);

  // Adds a row of metrics: of a step, an evaluation or a rollback. Refreshes the file if due: every
  // 10 seconds, or less often if writing takes more than 1 % of the time. Returns an error message
  // if the refresh failed.
  std::optional<std::string> Add(const nlohmann::ordered_json& row);

  // From the next refresh on, shows these mistakes of a classifier in the evaluation after
  // `steps_done` steps, in place of earlier ones. `images`: a member of the view "images".
  void ShowMistakes(int64_t steps_done, nlohmann::ordered_json images);

  // Like ShowMistakes, for a segmentation model's results on samples: [{"caption": …, "png":
  // base64}, …]. `colours`: the colours of the classes 1, 2, …
  void ShowSlices(int64_t steps_done, const std::string& colours, nlohmann::ordered_json images);

  // Like ShowMistakes, for images that the model generates: one picture, a PNG file in base64.
  void ShowImages(int64_t steps_done, const std::string& png);

  // Shows from the next refresh on what data could not be read and was left out; "" shows nothing.
  void ShowUnread(std::string text) { unread_ = std::move(text); }

  // Writes the file now. `state` says how the run ended, or is kRunning, which makes browsers
  // reload the page.
  static constexpr char kRunning[] = "running";
  std::optional<std::string> Write(const std::string& state);

 private:
  using Clock = std::chrono::steady_clock;

  nlohmann::ordered_json Views(const std::string& state) const;

  std::string path_;
  RunFacts facts_;
  std::string unread_;
  History steps_, evaluations_, energy_;
  nlohmann::ordered_json last_evaluation_;             // row of the last evaluation
  nlohmann::ordered_json mistakes_, slices_, images_;  // views; null: none
  nlohmann::ordered_json divergences_ = nlohmann::ordered_json::array();  // [[step, text], …]
  double best_eval_;
  Clock::time_point due_;
};

}  // namespace plimsoll::reports
