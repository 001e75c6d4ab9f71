// Places buffers one by one in a given order, each into a gap among those before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/interval.h"

namespace plimsoll::memory {

enum class Fit { kLowest, kTightest };  // which of the gaps that are large enough

// Places sized[i] for each i of `order`, at offsets[i], and returns the extent. Sizes are used as
// they are. Adds the number of pairs of buffers looked at to `work`.
int64_t PlaceInOrder(std::span<const Interval> sized, std::span<const int32_t> order, Fit fit,
                     std::vector<int64_t>& offsets, int64_t& work);

}  // namespace plimsoll::memory
