// The most important results of a run that has ended, in about five lines (`memory.summary`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/record/run_summary.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

struct Closing {
  double seconds = 0;                         // that this process took
  std::string model;                          // the folder that was written; empty: none
  std::string averages = "";                  // the same of averaged weights
  std::optional<int64_t> weights_after = {};  // steps, if these are not the last weights
  std::string report;                         // the page; empty: there is none
  // "by rates measured here on 2026-11-20", if the plan was chosen by such; otherwise empty.
  std::string rates = "";
  std::string updates = "";  // UpdatesText
  // What makes data take less of the steps' time: "more data.workers may help"; empty: nothing.
  std::string data_advice = "";
};

// How many updates a run has made, and why others were not. Empty where each step made one.
std::string UpdatesText(const StepCounts& counts);
// What is wrong with a run that made steps but no update, and the way out; otherwise empty.
std::string NoUpdateText(const StepCounts& counts);

// Lines without a newline at the end.
std::string ClosingSummary(const RunResult& result, const Closing& closing);

}  // namespace plimsoll::trainer
