// Writes a run into a folder of MLflow's file store ("mlruns"), which `mlflow ui` shows:
//
//   EXPERIMENT/meta.yaml                  the experiment's name
//   EXPERIMENT/RUN/meta.yaml              the run's name, status, times, and where its files are
//   EXPERIMENT/RUN/params/KEY             a text each, as tags/KEY
//   EXPERIMENT/RUN/metrics/train/NAME     a line for each step: milliseconds since 1970, value,
//   step
//
// Names may have letters and digits of ASCII, "_", "-", "." and spaces; each other character
// becomes
// "_".
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
  std::string experiment;  // its name; made when missing
  std::string name;        // of the run
  std::string user;
  std::string files;  // the folder with the run's files; they stay there
  std::vector<std::pair<std::string, std::string>> params, tags;
};

// Errors are UserErrors that name the file.
class MlflowRun {
 public:
  enum class Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };  // MLflow's numbers

  // In `folder`, which is made when missing. Continues the run that `place` names, if it is
  // there, and makes a new one otherwise.
  MlflowRun(std::string folder, const MlflowFacts& facts, const std::string& place = "");

  // EXPERIMENT/RUN.
  const std::string& place() const { return place_; }
  // Whether it went on with that run.
  bool continues() const { return continues_; }

  // The run continues from this step: drops the rows of this step and later ones, and a line
  // that was cut off.
  void Restart(int64_t step);
  // Adds every number in a row of metrics, at its "step". The lines are whole, or not there.
  void AddRow(const nlohmann::ordered_json& row);
  // `reason`: of the end, in words; empty: none to tell.
  void SetStatus(Status status, const std::string& reason);

 private:
  void Create(const MlflowFacts& facts);
  void WriteTexts(const std::string& kind,
                  const std::vector<std::pair<std::string, std::string>>& texts) const;

  std::string folder_;
  std::string place_;
  std::string run_;  // its folder
  bool continues_ = false;
  std::map<std::string, std::unique_ptr<LineFile>> curves_;  // by name
};

}  // namespace plimsoll::reports
