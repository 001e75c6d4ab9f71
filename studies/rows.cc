#include "studies/rows.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace plimsoll::studies {
namespace {

void AddRunOf(const Study& study, const StudyRow& row, const std::string& directory, Row& result) {
  const std::optional<Outcome> outcome = ReadOutcome(directory + "/outcome.json");
  if (!outcome) return;
  if (outcome->status != Status::kDone) {
    result.status = outcome->status;
    result.note = outcome->reason;
    return;
  }
  try {
    if (row.command.empty()) {
      AddRun(directory, study.measure.warmup, result);
    } else {
      AddOutput(ReadText(directory + "/log.txt"), result);
    }
    if (result.status == Status::kNotRun) result.status = Status::kDone;
  } catch (const UserError& error) {
    result.status = Status::kFailed;
    result.note = error.what();
  }
}

// Why a row that came to its end is no result; empty: it is one.
std::string WhyBroken(const Broken& broken, const Row& row, const Row& baseline) {
  const std::optional<double> loss = row.loss();
  if (!loss) return "";
  if (!std::isfinite(*loss)) return "the loss is not finite";
  if (broken.loss_above && *loss > *broken.loss_above) {
    return fmt::format("loss {:.4g} is above broken.loss_above {:g}", *loss, *broken.loss_above);
  }
  if (!broken.loss_difference || !baseline.loss()) return "";
  const double share = std::abs(*loss - *baseline.loss()) / std::abs(*baseline.loss());
  if (share <= *broken.loss_difference) return "";
  return fmt::format(
      "loss {:.4g} is {:.2g} % from the baseline's {:.4g} (broken.loss_difference "
      "{:g})",
      *loss, share * 100, *baseline.loss(), *broken.loss_difference);
}

}  // namespace

std::vector<Row> ReadRows(const Study& study, const std::vector<StudyRow>& rows,
                          const StudyDirectory& directory) {
  std::vector<Row> results;
  for (const StudyRow& row : rows) {
    Row& result = results.emplace_back();
    result.name = row.name;
    if (!row.refused.empty()) {
      result.status = Status::kInfeasible;
      result.note = row.refused;
      continue;
    }
    for (int64_t repeat = 0; repeat < study.repeats; ++repeat) {
      AddRunOf(study, row, directory.Run(row.folder, repeat), result);
    }
  }
  const size_t baseline = BaselineIndex(study, rows);
  for (Row& row : results) {
    if (row.status != Status::kDone) continue;
    const std::string why = WhyBroken(study.broken, row, results[baseline]);
    if (why.empty()) continue;
    row.status = Status::kBroken;
    row.note = why;
  }
  return results;
}

size_t BaselineIndex(const Study& study, const std::vector<StudyRow>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == study.baseline) return i;
  }
  return 0;
}

}  // namespace plimsoll::studies
