// `plimsoll ablate` and `plimsoll report`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::studies {

struct AblateCommand {
  std::string file;
  std::string base, dir;          // override the file's
  std::vector<std::string> sets;  // override its `set`
  int jobs = 1;                   // runs side by side, each on GPUs of its own
  bool yes = false;               // start even many hundreds of runs
  bool retry_failed = false;
  bool list = false;       // print the rows without running anything
  bool json = false;       // print study.json in place of the table
  bool reference = false;  // print the keys of a study file
  std::string columns;     // of all tables (figures.h); empty: what rows fill
};

// Makes the remaining runs of the study, and prints and writes its results. UserError with
// ExitCode::kStoppedBySignal when the user stopped it, and with ExitCode::kInternal when a law is
// broken.
void RunAblate(const AblateCommand& command);

struct ReportCommand {
  std::vector<std::string> runs;    // run directories; the first is the baseline
  int64_t warmup = 3;               // first steps of each run, whose times don't count
  std::string html, csv, tex, svg;  // files to write; empty: none
  std::string columns;  // of the tables in text, HTML, CSV and LaTeX; empty: what rows fill
  bool json = false;
};

// Compares existing runs.
void RunReport(const ReportCommand& command);

}  // namespace plimsoll::studies
