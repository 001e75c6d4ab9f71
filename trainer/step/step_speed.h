// The work of a step and how fast it is done.
#pragma once

#include <string>

#include "runtime/device.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The tokens of a step on all ranks together, or the samples of a model that reads no sequences.
double TokensPerStep(const CompileOptions& options);
// "token" or "sample": what TokensPerStep counts.
const char* UnitOfWork(const CompileOptions& options);

// FLOP/s of the step's matrix products where each runs at the peak of its operands' type: the
// denominator of model FLOPs utilisation. `peak`: of operands of amp.dtype; `codes_peak`: of 8-bit
// ones. 0: not known.
double PeakFlops(const CompiledStep& compiled, double peak, double codes_peak);
// By what the maker says of the device.
double PeakFlops(const CompiledStep& compiled, const runtime::Device& device);

// Of a step that takes `seconds`: "331.1 ms, 49.5k tokens/s".
std::string SpeedText(const CompileOptions& options, double seconds);

}  // namespace plimsoll::trainer
