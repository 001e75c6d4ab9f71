// The rates of an NVIDIA H200, by bench/rates.py.
#pragma once

#include <span>

#include "memory/measured_rates.h"

namespace plimsoll::memory {

// Sorted by kind.
std::span<const MeasuredRate> H200Rates();

}  // namespace plimsoll::memory
