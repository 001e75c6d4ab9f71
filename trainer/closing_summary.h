// The most important results of a run that has ended, in about five lines (`memory.summary`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/record/run_summary.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

struct Closing {
  double seconds = 0;         // run time of this process
  std::string model;          // the folder of the written model; empty if no model was written
  std::string averages = "";  // the folder of the averaged weights; empty without averages
  // The number of steps before the saved weights, if the run made more steps after them.
  std::optional<int64_t> weights_after = {};
  std::string report;  // the path of the report page; empty if no report was written
  // "by rates measured here on 2026-11-20", if the plan was chosen by rates measured on this
  // machine; otherwise empty.
  std::string rates = "";
  std::string updates = "";  // UpdatesText of the run
  // Advice to spend less of the steps' time on data: "more data.workers may help". Empty without
  // advice.
  std::string data_advice = "";
};

// The number of updates of a run, and why the other steps made no update. Empty if each step made
// an update.
std::string UpdatesText(const StepCounts& counts);
// The error message, with advice, for a run that made steps but no update. Empty for all other
// runs.
std::string NoUpdateText(const StepCounts& counts);

// The summary's lines, without a newline at the end.
std::string ClosingSummary(const RunResult& result, const Closing& closing);

}  // namespace plimsoll::trainer
