// The processor as the system reports it.
#pragma once

#include <optional>
#include <string>

namespace plimsoll::runtime {

// The processor's model: "AMD EPYC 9354 32-Core Processor".
std::string ProcessorName();

// The mean of the cores' current clock rates; nullopt if the system doesn't report them.
std::optional<double> ProcessorMhz();

}  // namespace plimsoll::runtime
