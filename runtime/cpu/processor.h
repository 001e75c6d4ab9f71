// What the system reports about the processor.
#pragma once

#include <optional>
#include <string>

namespace plimsoll::runtime {

// "AMD EPYC 9354 32-Core Processor".
std::string ProcessorName();

// The mean of its cores' current clock rates; nullopt if the system doesn't tell.
std::optional<double> ProcessorMhz();

}  // namespace plimsoll::runtime
