// report.html of a training run, refreshed while the run goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/history.h"

namespace plimsoll::reports {

// Facts known before a run's first step.
struct RunFacts {
  std::string title;
  std::string subtitle;
  int64_t steps = 0;                                               // planned number
  nlohmann::ordered_json facts = nlohmann::ordered_json::array();  // [[name, value], …]
  std::string config;                                              // resolved YAML
  std::vector<std::string> objectives = {};  // the named ones; their row members are NAME.loss, …
  std::vector<std::string> metrics = {};     // members of rows besides those of every model
  std::string unit = "token";                // what the rows' tokens_per_s counts, or "sample"
  // Metrics of evaluations that are drawn as matrices, and what their dimensions stand for.
  struct Matrix {
    std::string metric, rows, columns;
  };
  std::vector<Matrix> matrices = {};
  // Of a classifier, by number, for matrices and mistakes; a class without a name is shown by its
  // number.
  std::vector<std::string> class_names = {};
  // The held-out metric that decides which evaluation is best.
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

  // Adds a row of metrics, of a step, an evaluation or a rollback. Refreshes the file when due:
  // every 10 seconds, less often if writing takes more than a hundredth of the time. Returns an
  // error message if the refresh failed.
  std::optional<std::string> Add(const nlohmann::ordered_json& row);

  // Shows these images of the evaluation after so many steps, in place of earlier ones, from the
  // next refresh on: the members of the view "images".
  void ShowMistakes(int64_t steps_done, nlohmann::ordered_json images);

  // The same of what a model of segmentation makes of samples: [{"caption": …, "png": base64}, …],
  // with the colours of the classes 1, 2, …
  void ShowSlices(int64_t steps_done, const std::string& colours, nlohmann::ordered_json images);

  // The same of images that the model makes: one picture, a PNG file in base64.
  void ShowImages(int64_t steps_done, const std::string& png);

  // Writes the file now. `state`: kRunning, which makes browsers reload the page, or how the run
  // ended.
  static constexpr char kRunning[] = "running";
  std::optional<std::string> Write(const std::string& state);

 private:
  using Clock = std::chrono::steady_clock;

  nlohmann::ordered_json Views(const std::string& state) const;

  std::string path_;
  RunFacts facts_;
  History steps_, evaluations_, energy_;
  nlohmann::ordered_json last_evaluation_;                                // its row
  nlohmann::ordered_json mistakes_, slices_, images_;                     // views; null: none
  nlohmann::ordered_json divergences_ = nlohmann::ordered_json::array();  // [[step, text], …]
  double best_eval_;
  Clock::time_point due_;
};

}  // namespace plimsoll::reports
