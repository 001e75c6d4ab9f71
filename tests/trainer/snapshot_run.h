// Common parts of tests of snapshots: a small run with snapshots, which the program trains, stops
// and resumes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {

namespace fs = std::filesystem;
using nlohmann::json;
using Sets = std::vector<std::string>;

class SnapshotCommand : public testing::Test {
 protected:
  SnapshotCommand() {
    std::string words;
    for (int i = 0; i < 400; ++i) {
      words += "One, two, three, four, five: number " + std::to_string(i) + " is alive.\n%\n";
    }
    folder_.Write("text", words);
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 2, width: 64, heads: 2, sequence: 32, dropout: 0.1}\n"
              "data: {train: " +
                  folder_.path() +
                  "/text, format: text, tokenizer: byte,\n"
                  "       eval_fraction: 0.2, document_separator: \"%\"}\n"
                  "train: {steps: 12, micro_batch: 4, eval_every: 4, log_every: 5, threads: 2}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "schedule: {name: cosine, warmup: 2}\n"
                  "memory: {summary: false, calibrate: false}\n"
                  "save: {every: 5, model: false}\n");
  }

  std::vector<std::string> Arguments(const Sets& sets, const Sets& more = {}) const {
    return WithSets({"train", yaml_, "--set", "run.dir=" + run_}, sets, more);
  }
  Outcome Train(const Sets& sets = {}) const { return RunPlimsoll(Arguments(sets)); }
  Outcome Resume(const Sets& sets = {}, const std::string& from = "auto") const {
    return RunPlimsoll(Arguments(sets, {"--resume", from}));
  }

  // Rows of metrics.jsonl, without values that differ from run to run.
  std::vector<std::string> Numbers() const {
    std::vector<std::string> rows;
    for (const json& row : JsonLines(ReadFile(run_ + "/metrics.jsonl"))) {
      json numbers;
      for (const char* key :
           {"step", "loss", "eval_loss", "eval_ema_loss", "lr", "grad_norm", "loss_scale"}) {
        if (row.contains(key)) numbers[key] = row.at(key);
      }
      rows.push_back(numbers.dump());
    }
    return rows;
  }
  // The rows of the same run without interruption.
  std::vector<std::string> NumbersOfWhole(Sets sets) {
    const std::string run = std::exchange(run_, folder_ / "whole");
    sets.push_back("run.overwrite=true");
    ExpectExit(0, Train(sets));
    const std::vector<std::string> numbers = Numbers();
    run_ = run;
    return numbers;
  }

  std::string Snapshot(int step) const {
    return run_ + "/snapshots/step-00000000" + std::to_string(step);
  }
  std::vector<std::string> Snapshots() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(run_ + "/snapshots", error)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  std::string run_ = folder_ / "run";
  std::mt19937 random_{11};
};

}  // namespace plimsoll
