#include "trainer/record/run_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/message.h"
#include "formats/base64.h"
#include "trainer/record/step_record.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

void Warn(const std::string& problem) {
  PrintWarning(fmt::format("{}; the run goes on without it", problem));
}

template <typename File, typename Make>
void Open(std::unique_ptr<File>& file, const Make& make) {
  try {
    file = make();
  } catch (const UserError& problem) {
    Warn(problem.what());
  }
}

// Writes to the file if there is one, and gives the file up when writing fails.
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

RunReports::RunReports(const config::LogConfig& config, const RunDirectory& directory,
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
  if (config.csv) OpenCsv();
  if (config.tensorboard) {
    Open(events_, [&] { return std::make_unique<reports::EventFile>(directory.path()); });
    Try(events_, [&](reports::EventFile& events) {
      if (first > 0) events.Restart(first);
      events.AddText("config", facts.config, first);
    });
  }
  if (config.report) OpenPage();
  for (const std::string& line : lines) Repeat(line);
}

// Rows written by another version of this program may have members that this version does not know.
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

void RunReports::GoBack(int64_t step, const std::vector<std::string>& lines) {
  first_ = step;
  if (std::exchange(csv_, nullptr)) OpenCsv();
  Try(events_, [&](reports::EventFile& events) { events.Restart(step); });
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
  std::error_code ignored;  // then the file cannot be written
  std::filesystem::create_directory(directory_.File(folder), ignored);
  try {
    directory_.Write(folder + "/" + name, {png.begin(), png.end()});
  } catch (const UserError& problem) {
    Warn(problem.what());
  }
}

void RunReports::AddSample(const ordered_json& row) {
  Try(events_, [&](reports::EventFile& events) {
    events.AddText(fmt::format("sample {}", row.at("sample").get<int64_t>()), row.at("text"),
                   row.at("step"));
  });
}

// Files that are written anew get the rows of the earlier part of the run; TensorBoard has them.
void RunReports::Repeat(const std::string& line) {
  ordered_json row = ordered_json::parse(line);
  // JSON cannot represent NaN or infinities: they are written as null.
  for (const std::string& key : numbers_) {
    const auto value = row.find(key);
    if (value != row.end() && value->is_null()) *value = std::numeric_limits<double>::quiet_NaN();
  }
  Try(csv_, [&](reports::CsvFile& csv) { csv.AddRow(FlatRow(row)); });
  if (page_) TakeProblem(page_, page_->Add(row));
  // TensorBoard lacks only the last evaluation, whose step number is that of the next step.
  if (row.at("step") < first_) return;
  Try(events_, [&](reports::EventFile& events) { events.AddRow(FlatRow(row)); });
}

void RunReports::End(const std::string& state) {
  if (page_) TakeProblem(page_, page_->Write(state));
}

}  // namespace plimsoll::trainer
