// Writes a run into a folder of MLflow's file store ("mlruns"), which `mlflow ui` shows:
//
//   EXPERIMENT/meta.yaml                  the experiment's name
//   EXPERIMENT/RUN/meta.yaml              the run's name, status, times, and artifact folder
//   EXPERIMENT/RUN/params/KEY             the text of a parameter; tags/KEY: of a tag
//   EXPERIMENT/RUN/metrics/train/NAME     a line per step: milliseconds since 1970, value, step
//
// Names may contain ASCII letters and digits, "_", "-", "." and spaces. Each other character
// becomes "_".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/line_file.h"

namespace plimsoll::reports {

struct MlflowFacts {
  std::string experiment;  // experiment's name; made if missing
  std::string name;        // name of the run
  std::string user;
  std::string files;  // folder with the run's files, which stay there
  std::vector<std::pair<std::string, std::string>> params, tags;
};

// Writes one run. Errors are UserErrors that name the file.
class MlflowRun {
 public:
  // Numbers as in MLflow.
  enum class Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };

  // Writes into `folder`, which is made if missing. Continues the run that `place` names, if it
  // exists; otherwise makes a new run.
  MlflowRun(std::string folder, const MlflowFacts& facts, const std::string& place = "");

  // The run's folder relative to the store: EXPERIMENT/RUN.
  const std::string& place() const { return place_; }
  // Whether this continues an existing run.
  bool continues() const { return continues_; }

  // Prepares to continue from this step: drops the rows of this step and later ones, and an
  // incomplete line.
  void Restart(int64_t step);
  // Adds every number in a row of metrics, at its "step". A line is written completely or not at
  // all.
  void AddRow(const nlohmann::ordered_json& row);
  // `reason`: why the run ended, in words; empty: no reason.
  void SetStatus(Status status, const std::string& reason);

 private:
  void Create(const MlflowFacts& facts);
  void WriteTexts(const std::string& kind,
                  const std::vector<std::pair<std::string, std::string>>& texts) const;

  std::string folder_;
  std::string place_;
  std::string run_;  // path of the run's folder
  bool continues_ = false;
  std::map<std::string, std::unique_ptr<LineFile>> curves_;  // by metric
};

}  // namespace plimsoll::reports
