// How much of a step the thread that makes the steps spends on their data: waiting for the threads
// that prepare them, preparing them itself, and copying them.
#pragma once

#include <string>

namespace plimsoll::trainer {

// "data 6.1 of 20.2 ms"; empty: data take less than a tenth of the step.
std::string DataTimeText(double data_seconds, double step_seconds);

}  // namespace plimsoll::trainer
