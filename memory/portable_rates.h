// The rates of an NVIDIA H200 with the kernels of other GPUs, by bench/rates.py.
#pragma once

#include <span>

#include "memory/kind_rates.h"

namespace plimsoll::memory {

// The rates of calls that have kernels for Hopper, in 16 bits: attention and the loss. Sorted by
// kind. Other calls have the rates of H200Rates (memory/h200_rates.h).
std::span<const MeasuredRate> PortableRates();

}  // namespace plimsoll::memory
