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
  std::string model;          // the model's folder; empty: none was written
  std::string averages = "";  // the folder of averaged weights; empty: none
  // The steps before the saved weights, if later steps followed.
  std::optional<int64_t> weights_after = {};
  std::string report;  // the report page; empty: none was written
  // "by rates measured here on 2026-11-20", if rates measured on this machine chose the plan;
  // otherwise empty.
  std::string rates = "";
  std::string updates = "";  // text from UpdatesText
  // Advice to spend less of the steps' time on data: "more data.workers may help"; empty: none.
  std::string data_advice = "";
};

// The number of updates of a run, and why other steps made none. Empty if each step made one.
std::string UpdatesText(const StepCounts& counts);
// The error for a run that made steps but no update, with advice; otherwise empty.
std::string NoUpdateText(const StepCounts& counts);

// The summary's lines, without a newline at the end.
std::string ClosingSummary(const RunResult& result, const Closing& closing);

}  // namespace plimsoll::trainer
