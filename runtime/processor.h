// What the system calls the processor.
#pragma once

#include <optional>
#include <string>

namespace plimsoll::runtime {

// "AMD EPYC 9354 32-Core Processor".
std::string ProcessorName();

// What its cores run at now, their mean; nothing where the system doesn't tell.
std::optional<double> ProcessorMhz();

}  // namespace plimsoll::runtime
