// What a run leaves for people and their tools beside metrics.jsonl, as `log` says: metrics.csv,
// TensorBoard's events, report.html. A file that cannot be written is no reason to end a run: there
// is a warning, and the run goes on without it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/csv_file.h"
#include "reports/event_file.h"
#include "reports/run_page.h"
#include "trainer/config/run_config.h"
#include "trainer/run_directory.h"

namespace plimsoll::trainer {

class RunReports {
 public:
  // In `directory`, which has begun.
  RunReports(const config::LogConfig& config, const RunDirectory& directory,
             const reports::RunFacts& facts);

  // A row of metrics.jsonl.
  void Add(const nlohmann::ordered_json& row);
  // One that an earlier part of this run wrote, as a line of the file: for what is written anew.
  void Repeat(const std::string& line);
  // The last word: "done", or why there is no more to come.
  void End(const std::string& state);

 private:
  std::unique_ptr<reports::CsvFile> csv_;
  std::unique_ptr<reports::EventFile> events_;
  std::unique_ptr<reports::RunPage> page_;
};

}  // namespace plimsoll::trainer
