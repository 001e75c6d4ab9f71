// The files that a run writes for people and tools in addition to metrics.jsonl, as `log` says:
// metrics.csv, TensorBoard's events, report.html, MLflow's run. If a file cannot be written, the
// run warns and continues without it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/metric_files.h"
#include "reports/mlflow_run.h"
#include "reports/run_page.h"
#include "trainer/config/run_config.h"
#include "trainer/record/run_directory.h"
#include "trainer/record/run_status.h"
#include "trainer/record/slices.h"

namespace plimsoll::trainer {

class RunReports {
 public:
  // Opens the files in `directory` when the run begins or continues. `first` is this process's
  // first step, `lines` are the lines already in metrics.jsonl, and `columns` is the result of
  // ModelColumns().
  RunReports(const config::RunConfig& config, const RunDirectory& directory,
             const reports::RunFacts& facts, int64_t first, const std::vector<std::string>& lines,
             const std::vector<std::string>& columns = {});

  // Adds a row of metrics.jsonl.
  void Add(const nlohmann::ordered_json& row);
  // Shows the result of Mistakes::Gather() for the evaluation after `steps_done` steps.
  void ShowMistakes(int64_t steps_done, const nlohmann::ordered_json& mistakes);
  // Shows the result of Slices::Gather(), and writes it to slices/sample_N.png.
  void ShowSlices(int64_t steps_done, const SlicePictures& slices);
  // Shows a picture of images that the model generated (SampleGrid::Png), and writes it to
  // samples/step_N.png.
  void ShowImages(int64_t steps_done, const std::vector<uint8_t>& png);
  // Shows what data could not be read and was left out (data::Source::Unread).
  void ShowUnread(const std::string& unread);
  // Adds a row of samples.jsonl.
  void AddSample(const nlohmann::ordered_json& row);
  // Goes back to `step`; only the rows in `lines` remain.
  void GoBack(int64_t step, const std::vector<std::string>& lines);
  // Writes the final state: "done", or the reason why no more rows will come.
  void End(const std::string& state);
  // Writes the status to MLflow, which also records errors after the last step.
  void SetStatus(const RunStatus& status);

 private:
  void Repeat(const std::string& line);
  // Writes a picture; a failure causes only a warning.
  void WritePicture(const std::string& folder, const std::string& name,
                    const std::vector<uint8_t>& png);

  void FindColumns(const std::vector<std::string>& lines);
  void OpenCsv();
  void OpenPage();
  void OpenMlflow(const config::RunConfig& config);

  const RunDirectory& directory_;  // must outlive this object
  const reports::RunFacts facts_;
  int64_t first_;
  std::vector<std::string> columns_;  // the columns of metrics.csv
  std::vector<std::string> numbers_;  // columns that may hold NaN or infinities
  std::unique_ptr<reports::CsvFile> csv_;
  std::unique_ptr<reports::EventFile> events_;
  std::unique_ptr<reports::RunPage> page_;
  std::unique_ptr<reports::MlflowRun> mlflow_;
  int64_t mlflow_first_ = 0;  // the first step that MLflow's run lacks
};

}  // namespace plimsoll::trainer
