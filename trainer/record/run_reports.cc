#include "trainer/record/run_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/input_file.h"
#include "base/message.h"
#include "formats/base64.h"
#include "trainer/record/mlflow_facts.h"
#include "trainer/record/step_record.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

void Warn(const std::string& problem) {
  PrintWarning(fmt::format("{}; the run continues without it", problem));
}

template <typename File, typename Make>
void Open(std::unique_ptr<File>& file, const Make& make) {
  try {
    file = make();
  } catch (const UserError& problem) {
    Warn(problem.what());
  }
}

// Writes to a file that is open; closes it for good if writing fails.
template <typename File, typename Write>
void Try(std::unique_ptr<File>& file, const Write& write) {
  if (!file) return;
  try {
    write(*file);
  } catch (const UserError& problem) {
    Warn(problem.what());
    file.reset();
  }
}

void TakeProblem(std::unique_ptr<reports::RunPage>& page,
                 const std::optional<std::string>& problem) {
  if (!problem) return;
  Warn(*problem);
  page.reset();
}

}  // namespace

RunReports::RunReports(const config::RunConfig& config, const RunDirectory& directory,
                       const reports::RunFacts& facts, int64_t first,
                       const std::vector<std::string>& lines,
                       const std::vector<std::string>& columns)
    : directory_(directory),
      facts_(facts),
      first_(first),
      columns_(MetricsColumns()),
      numbers_({"loss", "eval_loss", "grad_norm"}) {
  columns_.insert(columns_.end(), columns.begin(), columns.end());
  numbers_.insert(numbers_.end(), columns.begin(), columns.end());
  FindColumns(lines);
  if (config.log.csv) OpenCsv();
  if (config.log.tensorboard) {
    Open(events_, [&] { return std::make_unique<reports::EventFile>(directory.path()); });
    Try(events_, [&](reports::EventFile& events) {
      if (first > 0) events.Restart(first);
      events.AddText("config", facts.config, first);
    });
  }
  if (config.log.report) OpenPage();
  OpenMlflow(config);
  for (const std::string& line : lines) Repeat(line);
}

// Finds columns in the rows of an earlier part of the run. A different version of this program may
// have written members that this version does not know.
void RunReports::FindColumns(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const ordered_json row = FlatRow(ordered_json::parse(line));
    for (const auto& [name, value] : row.items()) {
      if (std::ranges::find(columns_, name) == columns_.end()) columns_.push_back(name);
    }
  }
}

void RunReports::OpenCsv() {
  Open(csv_, [&] {
    return std::make_unique<reports::CsvFile>(directory_.File("metrics.csv"), columns_);
  });
}

void RunReports::OpenPage() {
  page_ = std::make_unique<reports::RunPage>(directory_.File("report.html"), facts_);
  TakeProblem(page_, page_->Write(reports::RunPage::kRunning));
}

// Opens MLflow's run. mlflow.json stores its name, so that a resumed run finds it.
void RunReports::OpenMlflow(const config::RunConfig& config) {
  constexpr const char* kName = "mlflow.json";
  Open(mlflow_, [&]() -> std::unique_ptr<reports::MlflowRun> {
    const std::string folder = MlflowFolder(config);
    if (folder.empty()) return nullptr;
    std::ifstream file = OpenFile(directory_.File(kName));
    const ordered_json known = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
    const bool same = known.is_object() && known.value("folder", "") == folder;
    auto run = std::make_unique<reports::MlflowRun>(folder, MlflowFactsOf(config),
                                                    same ? known.value("run", "") : "");
    if (run->continues()) {
      mlflow_first_ = first_;
      run->Restart(first_);
    }
    directory_.Write(kName, ordered_json{{"folder", folder}, {"run", run->place()}}.dump(1) + "\n");
    return run;
  });
}

void RunReports::GoBack(int64_t step, const std::vector<std::string>& lines) {
  first_ = mlflow_first_ = step;
  if (std::exchange(csv_, nullptr)) OpenCsv();
  Try(events_, [&](reports::EventFile& events) { events.Restart(step); });
  Try(mlflow_, [&](reports::MlflowRun& run) { run.Restart(step); });
  if (page_) OpenPage();
  for (const std::string& line : lines) Repeat(line);
}

void RunReports::Add(const ordered_json& row) {
  Try(csv_, [&](reports::CsvFile& csv) { csv.AddRow(FlatRow(row)); });
  Try(events_, [&](reports::EventFile& events) {
    events.AddRow(FlatRow(row));
    if (const auto text = row.find("diverged"); text != row.end()) {
      events.AddText("diverged", *text, row.at("step"));
    }
  });
  Try(mlflow_, [&](reports::MlflowRun& run) { run.AddRow(FlatRow(row)); });
  if (page_) TakeProblem(page_, page_->Add(row));
}

void RunReports::ShowMistakes(int64_t steps_done, const ordered_json& mistakes) {
  if (page_) page_->ShowMistakes(steps_done, mistakes);
}

void RunReports::ShowSlices(int64_t steps_done, const SlicePictures& slices) {
  if (slices.empty()) return;
  ordered_json images = ordered_json::array();
  for (const auto& [sample, png] : slices) {
    images.push_back(
        {{"caption", fmt::format("sample {}", sample)}, {"png", formats::Base64(png)}});
  }
  if (page_) page_->ShowSlices(steps_done, Slices::kColours, std::move(images));
  for (const auto& [sample, png] : slices) {
    WritePicture("slices", fmt::format("sample_{}.png", sample), png);
  }
}

void RunReports::ShowImages(int64_t steps_done, const std::vector<uint8_t>& png) {
  if (png.empty()) return;
  if (page_) page_->ShowImages(steps_done, formats::Base64(png));
  WritePicture("samples", fmt::format("step_{}.png", steps_done), png);
}

void RunReports::WritePicture(const std::string& folder, const std::string& name,
                              const std::vector<uint8_t>& png) {
  std::error_code ignored;  // on failure the file cannot be written, either
  std::filesystem::create_directory(directory_.File(folder), ignored);
  try {
    directory_.Write(folder + "/" + name, {png.begin(), png.end()});
  } catch (const UserError& problem) {
    Warn(problem.what());
  }
}

void RunReports::ShowUnread(const std::string& unread) {
  if (page_) page_->ShowUnread(unread);
}

void RunReports::AddSample(const ordered_json& row) {
  Try(events_, [&](reports::EventFile& events) {
    events.AddText(fmt::format("sample {}", row.at("sample").get<int64_t>()), row.at("text"),
                   row.at("step"));
  });
}

// Repeats a row of the earlier part of the run for new files; TensorBoard and MLflow already have
// it.
void RunReports::Repeat(const std::string& line) {
  ordered_json row = ordered_json::parse(line);
  // JSON cannot represent NaN or infinities: they are written as null.
  for (const std::string& key : numbers_) {
    const auto value = row.find(key);
    if (value != row.end() && value->is_null()) *value = std::numeric_limits<double>::quiet_NaN();
  }
  Try(csv_, [&](reports::CsvFile& csv) { csv.AddRow(FlatRow(row)); });
  if (page_) TakeProblem(page_, page_->Add(row));
  // MLflow may lack the last evaluation, whose row has the same step number as the next step.
  if (row.at("step") >= mlflow_first_) {
    Try(mlflow_, [&](reports::MlflowRun& run) { run.AddRow(FlatRow(row)); });
  }
  if (row.at("step") < first_) return;
  Try(events_, [&](reports::EventFile& events) { events.AddRow(FlatRow(row)); });
}

void RunReports::End(const std::string& state) {
  if (page_) TakeProblem(page_, page_->Write(state));
}

void RunReports::SetStatus(const RunStatus& status) {
  using Status = reports::MlflowRun::Status;
  static const std::map<RunStatus::State, Status> kStatus = {
      {RunStatus::State::kRunning, Status::kRunning},
      {RunStatus::State::kDone, Status::kFinished},
      {RunStatus::State::kStopped, Status::kKilled},
      {RunStatus::State::kFailed, Status::kFailed}};
  Try(mlflow_,
      [&](reports::MlflowRun& run) { run.SetStatus(kStatus.at(status.state), status.reason); });
}

}  // namespace plimsoll::trainer
