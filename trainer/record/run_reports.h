// The files that a run writes for people and their tools besides metrics.jsonl, as `log` says:
// metrics.csv, TensorBoard's events, report.html, MLflow's run. A file that cannot be written does
// not end the run: there is a warning, and the run continues without that file.
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
  // Opens the files in `directory`, whose run has begun or continues: `first` is the first step of
  // this process, and `lines` are the lines already in metrics.jsonl. `columns`: ModelColumns().
  RunReports(const config::RunConfig& config, const RunDirectory& directory,
             const reports::RunFacts& facts, int64_t first, const std::vector<std::string>& lines,
             const std::vector<std::string>& columns = {});

  // A row of metrics.jsonl.
  void Add(const nlohmann::ordered_json& row);
  // Mistakes::Gather() of the evaluation after so many steps.
  void ShowMistakes(int64_t steps_done, const nlohmann::ordered_json& mistakes);
  // The same of Slices::Gather(). They are also written to slices/sample_N.png.
  void ShowSlices(int64_t steps_done, const SlicePictures& slices);
  // A picture of images that the model makes (SampleGrid::Png), also written to
  // samples/step_N.png.
  void ShowImages(int64_t steps_done, const std::vector<uint8_t>& png);
  // A row of samples.jsonl.
  void AddSample(const nlohmann::ordered_json& row);
  // The run goes back to `step`; `lines` are the lines that stay.
  void GoBack(int64_t step, const std::vector<std::string>& lines);
  // Writes the final state: "done", or the reason why no more rows will come.
  void End(const std::string& state);
  // The same for MLflow, which is told of errors after the last step, too.
  void SetStatus(const RunStatus& status);

 private:
  void Repeat(const std::string& line);
  // A file that cannot be written is a warning.
  void WritePicture(const std::string& folder, const std::string& name,
                    const std::vector<uint8_t>& png);

  void FindColumns(const std::vector<std::string>& lines);
  void OpenCsv();
  void OpenPage();
  void OpenMlflow(const config::RunConfig& config);

  const RunDirectory& directory_;  // outlives this
  const reports::RunFacts facts_;
  int64_t first_;
  std::vector<std::string> columns_;  // of metrics.csv
  std::vector<std::string> numbers_;  // columns that may hold NaN or infinities
  std::unique_ptr<reports::CsvFile> csv_;
  std::unique_ptr<reports::EventFile> events_;
  std::unique_ptr<reports::RunPage> page_;
  std::unique_ptr<reports::MlflowRun> mlflow_;
  int64_t mlflow_first_ = 0;  // the first step that it lacks
};

}  // namespace plimsoll::trainer
