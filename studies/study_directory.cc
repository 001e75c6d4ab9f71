#include "studies/study_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"

namespace plimsoll::studies {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kWayOut = "name another one with `dir` in the study file or --dir";

// Returns "" if the directory has no fingerprint.
std::string FingerprintIn(const std::string& path) {
  std::ifstream file = OpenFile(path + "/" + kFingerprint);
  std::string line;
  std::getline(file, line);
  return line;
}

bool HoldsAnything(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && (!fs::is_directory(path, error) || !fs::is_empty(path, error));
}

// Adds a run to the row's results. Returns false if the run doesn't exist.
bool AddRunOf(const Study& study, const StudyRow& row, size_t index, const std::string& directory,
              Row& result) {
  const std::optional<Outcome> outcome = ReadOutcome(directory + "/outcome.json");
  if (!outcome) return false;
  if (outcome->status != Status::kDone) {
    result.status = outcome->status;
    result.note = outcome->reason;
    return true;
  }
  const std::string seed = row.run_seeds[index % row.seeds.size()].Text();
  try {
    if (row.command.empty()) {
      AddRun(directory, study.measure.warmup, result);
      if (result.has_results()) result.runs.back().seed = seed;
    } else {
      result.runs.push_back(RunOf(ReadJson(directory + "/summary.json"), seed));
    }
    if (result.status == Status::kNotRun) result.status = Status::kDone;
  } catch (const UserError& error) {
    result.status = Status::kFailed;
    result.note = error.what();
  }
  return true;
}

// Why the result of a finished run is invalid; empty if the result is valid.
std::string WhyBroken(const Broken& broken, const Row& row, const Row& baseline) {
  const std::optional<Mean> of_row = OverSeeds(row, &Run::loss);
  if (!of_row) return "";
  const double loss = of_row->mean;
  if (!std::isfinite(loss)) return "the loss is not finite";
  if (broken.loss_above && loss > *broken.loss_above) {
    return fmt::format("loss {:.4g} is above broken.loss_above {:g}", loss, *broken.loss_above);
  }
  const std::optional<Mean> of_baseline = OverSeeds(baseline, &Run::loss);
  if (!broken.loss_difference || !of_baseline) return "";
  const double share = std::abs(loss - of_baseline->mean) / std::abs(of_baseline->mean);
  if (share <= *broken.loss_difference) return "";
  return fmt::format(
      "loss {:.4g} is {:.2g} % from the baseline's {:.4g} (broken.loss_difference "
      "{:g})",
      loss, share * 100, of_baseline->mean, *broken.loss_difference);
}

}  // namespace

StudyDirectory::StudyDirectory(const std::string& path, const std::string& fingerprint,
                               const std::string& text)
    : path_(path) {
  const std::string there = FingerprintIn(path_);
  if (there.empty() && HoldsAnything(path_)) {
    throw UserError(fmt::format("{}: holds something else than a study; {}", path_, kWayOut));
  }
  if (!there.empty() && there != fingerprint) {
    throw UserError(fmt::format(
        "{}: holds another study, or this one with other rows, base or measure (see {}); {}", path_,
        File("study.yaml"), kWayOut));
  }
  std::error_code error;
  fs::create_directories(File("runs"), error);
  if (error) {
    throw UserError(fmt::format("{}: cannot be made: {}; {}", path_, error.message(), kWayOut));
  }
  lock_.emplace(path_, "runs this study");
  if (there.empty()) Write(kFingerprint, fingerprint + "\n");
  Write("study.yaml", text);
}

std::string StudyDirectory::Run(const std::string& row_folder, size_t run) const {
  return fmt::format("{}/runs/{}.{}", path_, row_folder, run + 1);
}

void StudyDirectory::Write(const std::string& name, const std::string& text) const {
  WriteWhole(File(name), text);
}

Row ReadRow(const Study& study, const StudyRow& row, const StudyDirectory& directory) {
  Row result;
  result.name = row.name;
  if (!row.refused.empty()) {
    result.status = row.refused_as;
    result.note = row.refused;
    return result;
  }
  for (size_t run = 0;; ++run) {
    const bool there = AddRunOf(study, row, run, directory.Run(row.folder, run), result);
    if (!there && run >= PlannedRuns(study, row)) return result;
  }
}

std::vector<Row> ReadRows(const Study& study, const std::vector<StudyRow>& rows,
                          const StudyDirectory& directory) {
  std::vector<Row> results;
  std::vector<RowFacts> facts;
  for (const StudyRow& row : rows) {
    facts.push_back(row.facts);
    results.push_back(ReadRow(study, row, directory));
  }
  const size_t baseline = BaselineIndex(study, rows);
  ShareCurves(facts, baseline, results);
  for (Row& row : results) {
    if (row.status != Status::kDone) continue;
    const std::string why = WhyBroken(study.broken, row, results[baseline]);
    if (why.empty()) continue;
    row.status = Status::kBroken;
    row.note = why;
  }
  return results;
}

size_t PlannedRuns(const Study& study, const StudyRow& row) {
  return row.seeds.size() * static_cast<size_t>(study.repeats);
}

size_t BaselineIndex(const Study& study, const std::vector<StudyRow>& rows) {
  const auto found = std::ranges::find(rows, study.baseline, &StudyRow::name);
  return found == rows.end() ? 0 : static_cast<size_t>(found - rows.begin());
}

}  // namespace plimsoll::studies
