// The commands of the program: each function adds one command, with its options and its action, to
// the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "runtime/ranks/world.h"

namespace plimsoll::trainer {

// Commands that take run files (run_file_commands.cc). A command stores the program's exit code in
// `end`.
void AddTrain(CLI::App& app, runtime::World& world, ExitCode& end);
void AddPlan(CLI::App& app, runtime::World& world, ExitCode& end);
void AddAblate(CLI::App& app, runtime::World& world);
void AddReport(CLI::App& app);
void AddConfig(CLI::App& app, runtime::World& world);

// Commands on trained weights (weights_commands.cc).
void AddEval(CLI::App& app);
void AddGenerate(CLI::App& app);
void AddPredict(CLI::App& app);
void AddInspect(CLI::App& app);
void AddExport(CLI::App& app);

void AddData(CLI::App& app);  // the commands data … (data_commands.h)
void AddRuns(CLI::App& app);
void AddInfo(CLI::App& app);
void AddDocs(CLI::App& app);

}  // namespace plimsoll::trainer
