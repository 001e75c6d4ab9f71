// The commands `plimsoll ablate` and `plimsoll report`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::studies {

struct AblateCommand {
  std::string file;
  std::string base, dir;          // override the study file's
  std::vector<std::string> sets;  // override the study file's `set`
  int jobs = 1;                   // number of runs in parallel, each on its own GPUs
  bool yes = false;               // start without confirmation even with hundreds of runs
  bool retry_failed = false;
  bool list = false;       // print the rows without running anything
  bool json = false;       // print study.json in place of the table
  bool reference = false;  // print the keys of a study file
  std::string columns;     // columns of all tables (figures.h); empty means those with values
};

// Makes the remaining runs of the study, and prints and writes its results. Throws a UserError with
// ExitCode::kStoppedBySignal if the user stopped it, and with ExitCode::kInternal if a law is
// broken.
void RunAblate(const AblateCommand& command);

struct ReportCommand {
  std::vector<std::string> runs;    // run directories; the first is the baseline
  int64_t warmup = 3;               // number of first steps of each run that are not timed
  std::string html, csv, tex, svg;  // files to write; empty means not written
  std::string columns;  // columns in text, HTML, CSV and LaTeX; empty means those with values
  bool json = false;
};

// Prints and writes a comparison of existing runs.
void RunReport(const ReportCommand& command);

}  // namespace plimsoll::studies
