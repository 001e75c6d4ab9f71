// Numbers of images that a model makes (kMadeImages), as pixels of a file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plimsoll::trainer {

// The nearest of 256 steps from black, −1, to white, 1; beyond these, black or white. Not of NaN.
inline uint8_t Brightness(float value) {
  return static_cast<uint8_t>(std::lround(255 * (std::clamp(value, -1.0f, 1.0f) + 1) / 2));
}

}  // namespace plimsoll::trainer
