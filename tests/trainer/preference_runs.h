// Runs that learn from the pairs of tests/trainer/preferences/, on a CPU or a GPU, and what TRL's
// DPOTrainer recorded of ten steps (make_preferences.py).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/json.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {

inline constexpr const char* kPreferences = "tests/trainer/preferences";
inline constexpr const char* kPreferenceMetrics[] = {"rewards_chosen",  "rewards_rejected",
                                                     "rewards_margins", "rewards_accuracies",
                                                     "logps_chosen",    "logps_rejected"};

class PreferenceRuns : public testing::Test {
 protected:
  explicit PreferenceRuns(const std::string& device) {
    const std::string folder = kPreferences;
    folder_.Write("run.yaml", "model: {init_from: " + folder + "/model, sequence: 128}\n" +
                                  "lora: {init_from: " + folder + "/adapter}\n" +
                                  "data: {train: " + folder + "/pairs.jsonl, eval: " + folder +
                                  "/pairs.jsonl, tokenizer: " + folder +
                                  "/model, packing: none, order: consecutive}\n" +
                                  "preference: {loss: dpo, beta: 0.3}\n"
                                  "train: {steps: 10, micro_batch: 20, threads: 2, log_every: 1, "
                                  "eval_every: 0}\n"
                                  "optimizer: {lr: 3e-3, weight_decay: 0, clip_grad_norm: 0}\n"
                                  "schedule: {name: constant}\n"
                                  "device: " +
                                  device +
                                  "\n"
                                  "memory: {calibrate: false}\n");
  }

  Outcome Run(const std::string& run, const std::vector<std::string>& sets,
              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"run.dir=" + folder_ / run};
    all.insert(all.end(), sets.begin(), sets.end());
    return RunPlimsoll(WithSets({"train", folder_ / "run.yaml"}, all, more));
  }
  std::string Train(const std::string& run, const std::vector<std::string>& sets,
                    const std::vector<std::string>& more = {}) const {
    return ExpectExit(0, Run(run, sets, more)).out;
  }
  std::vector<nlohmann::json> Steps(const std::string& run) const {
    std::vector<nlohmann::json> rows;
    for (nlohmann::json& row : JsonLines(folder_.Read(run + "/metrics.jsonl"))) {
      if (row.contains("loss")) rows.push_back(std::move(row));
    }
    return rows;
  }
  // What TRL recorded of each step, but for `tolerance` of 1 + the value.
  void ExpectAsTrl(const std::string& run, const std::string& of, double tolerance = 1e-5) const {
    const nlohmann::json expected =
        formats::ReadJson(std::string(kPreferences) + "/expected.json").at(of);
    const std::vector<nlohmann::json> rows = Steps(run);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t step = 0; step < rows.size(); ++step) {
      SCOPED_TRACE(of + ", step " + std::to_string(step));
      const auto expect = [&](const char* name) {
        const double value = expected[step].at(name);
        EXPECT_NEAR(rows[step].at(name).get<double>(), value, tolerance * (1 + std::abs(value)))
            << name;
      };
      expect("loss");
      for (const char* name : kPreferenceMetrics) expect(name);
    }
  }

  const TempFolder folder_;
};

}  // namespace plimsoll
