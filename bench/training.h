// What the benchmarks of whole training steps share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/step/session.h"

namespace plimsoll::bench {

// Random tokens and targets, the same in every call.
void FillRandom(trainer::Session& session, int64_t vocab);

// One step on what the batch slots hold, until the device is done with it; returns seconds.
double RunStep(trainer::Session& session, int64_t step);

// So many steps from `first` on, the host as far ahead of the device as a run is; returns seconds.
double RunSteps(trainer::Session& session, int64_t first, int64_t steps);

double Median(std::vector<double> values);

// Writes the text and a line's end. UserError when the file can't be written.
void WriteText(const std::string& path, const std::string& text);

// Runs `body` where the user called from (`bazel run` starts programs elsewhere); returns the exit
// code, after printing the message of a UserError.
int RunBenchmark(const std::function<void()>& body);

}  // namespace plimsoll::bench
