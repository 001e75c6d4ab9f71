// The part of a step that the main thread, which makes the steps, spends on data: waiting for the
// threads that prepare batches, preparing batches itself, and copying batches.
#pragma once

#include <string>

namespace plimsoll::trainer {

// "data 6.1 of 20.2 ms"; empty if data takes less than a tenth of the step.
std::string DataTimeText(double data_seconds, double step_seconds);

}  // namespace plimsoll::trainer
