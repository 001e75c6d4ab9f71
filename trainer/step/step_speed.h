// The work of a step and how fast it is done.
#pragma once

#include <string>

#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The tokens of a step on all ranks together, or the samples of a model that reads no sequences.
double TokensPerStep(const CompileOptions& options);
// "token" or "sample": what TokensPerStep counts.
const char* UnitOfWork(const CompileOptions& options);

// Of a step that takes `seconds`: "331.1 ms, 49.5k tokens/s".
std::string SpeedText(const CompileOptions& options, double seconds);

}  // namespace plimsoll::trainer
