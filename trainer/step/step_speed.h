// The work of a step and its speed.
#pragma once

#include <string>

#include "runtime/device.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The tokens of a step on all ranks together; samples, if the model reads no sequences.
double TokensPerStep(const CompileOptions& options);
// "token" or "sample": what TokensPerStep counts.
const char* UnitOfWork(const CompileOptions& options);

// The FLOP/s of the step's matrix products if each runs at the peak of its operands' type: the
// denominator of model FLOPs utilisation. `peak` is for operands of amp.dtype, `codes_peak` for
// 8-bit operands. Returns 0 if a peak is unknown.
double PeakFlops(const CompiledStep& compiled, double peak, double codes_peak);
// The same with the peaks that the device's maker states.
double PeakFlops(const CompiledStep& compiled, const runtime::Device& device);

// The speed of a step that takes `seconds`: "331.1 ms, 49.5k tokens/s".
std::string SpeedText(const CompileOptions& options, double seconds);

}  // namespace plimsoll::trainer
