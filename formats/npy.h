// Arrays as files of NumPy's format .npy, version 1.0:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::formats {

// What stands before the elements: float32, little-endian, row by row. A multiple of 64 bytes.
std::string NpyHeader(std::span<const int64_t> shape);

}  // namespace plimsoll::formats
