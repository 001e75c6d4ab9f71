// The angle per position of a rotary pair, for the kernels of the op (formula in rotary.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "graph/attributes.h"

namespace plimsoll::ops {

// The frequency of pair i of `pairs`, in float32 as Hugging Face computes it.
inline float RotaryFrequency(const graph::Attributes& attributes, int64_t i, int64_t pairs) {
  const double theta = attributes.GetReal("theta");
  const float exponent = static_cast<float>(i) / static_cast<float>(pairs);
  const float frequency = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  if (!attributes.Has("factor")) return frequency;
  const double factor = attributes.GetReal("factor");
  if (!attributes.Has("low_freq_factor")) return frequency / static_cast<float>(factor);
  const double low = attributes.GetReal("low_freq_factor");
  const double high = attributes.GetReal("high_freq_factor");
  const double original = static_cast<double>(attributes.GetInt("original_sequence"));
  // Number of rotations within the original context: pairs with many stay, those with few are
  // slowed down, those between are interpolated.
  const double turns = original * frequency / (2 * M_PI);
  const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return static_cast<float>((1 - keep) * frequency / factor + keep * frequency);
}

}  // namespace plimsoll::ops
