// Arrays in NumPy's file format .npy, version 1.0:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::formats {

// The header before the elements, which are float32, little-endian and row-major. Its size is a
// multiple of 64 bytes.
std::string NpyHeader(std::span<const int64_t> shape);

}  // namespace plimsoll::formats
