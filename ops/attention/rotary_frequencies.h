// The angles per position of rotary pairs, and other values that the kernels compute from the op's
// attributes (formula in rotary.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"

namespace plimsoll::ops {

// r, the number of elements of a head that are rotated.
int64_t RotaryWidth(const graph::Attributes& attributes, int64_t head_width);

// The attention factor, by which cosines and sines are multiplied.
float RotaryScale(const graph::Attributes& attributes);

// Fills `to` with the frequencies of the pairs begin, begin + 1, … among `pairs` = r/2, in float32
// as Hugging Face computes them. Throws InternalError when `stretch` is too short. Allocates
// nothing.
void RotaryFrequencies(const graph::Attributes& attributes, int64_t pairs, int64_t begin,
                       std::span<float> to);

// The attribute "stretch": a positive factor for each pair, as a word such as "1 1.05 2.5".
std::string StretchWord(const std::vector<double>& stretch);
// The number of factors in the word. Throws InternalError when the word is malformed.
int64_t StretchCount(const std::string& word);

}  // namespace plimsoll::ops
