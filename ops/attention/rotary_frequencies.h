// The angles per position of rotary pairs, and what else the kernels of the op read from its
// attributes (formula in rotary.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"

namespace plimsoll::ops {

// r, the elements of a head that are turned.
int64_t RotaryWidth(const graph::Attributes& attributes, int64_t head_width);

// The attention factor, by which cosines and sines are multiplied.
float RotaryScale(const graph::Attributes& attributes);

// Fills `to` with the frequencies of the pairs begin, begin + 1, … of the r/2 = `pairs`, in float32
// as Hugging Face computes them. Throws InternalError when `stretch` is too short. Allocates
// nothing.
void RotaryFrequencies(const graph::Attributes& attributes, int64_t pairs, int64_t begin,
                       std::span<float> to);

// The attribute "stretch": a positive factor for each pair, as a word such as "1 1.05 2.5".
std::string StretchWord(const std::vector<double>& stretch);
// InternalError when the word is malformed.
int64_t StretchCount(const std::string& word);

}  // namespace plimsoll::ops
