// The rates of an NVIDIA H200, by bench/rates.py.
#pragma once

#include <span>

#include "memory/kind_rates.h"

namespace plimsoll::memory {

// The rates, sorted by kind.
std::span<const MeasuredRate> H200Rates();

}  // namespace plimsoll::memory
