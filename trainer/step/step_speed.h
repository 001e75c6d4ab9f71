// The work of a step and its speed.
#pragma once

#include <string>

#include "runtime/device.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The number of tokens that all ranks process in a step, or of samples if the model reads no
// sequences.
double TokensPerStep(const CompileOptions& options);
// "token" or "sample": what TokensPerStep counts.
const char* UnitOfWork(const CompileOptions& options);

// The FLOP/s of the step's matrix products if each runs at the peak of its operands' type. This is
// the denominator of model FLOPs utilisation. `peak` is for operands of amp.dtype, `codes_peak` for
// 8-bit operands. Returns 0 if a needed peak is unknown.
double PeakFlops(const CompiledStep& compiled, double peak, double codes_peak);
// Like the function above, with the peaks that the device's maker states.
double PeakFlops(const CompiledStep& compiled, const runtime::Device& device);

// The speed of a step that takes `seconds`: "331.1 ms, 49.5k tokens/s".
std::string SpeedText(const CompileOptions& options, double seconds);

}  // namespace plimsoll::trainer
