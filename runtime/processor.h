// What the system calls the processor.
#pragma once

#include <string>

namespace plimsoll::runtime {

// "AMD EPYC 9354 32-Core Processor".
std::string ProcessorName();

}  // namespace plimsoll::runtime
