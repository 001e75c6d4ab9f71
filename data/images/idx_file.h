// IDX files, in which data sets of the MNIST family come (LeCun, Cortes, Burges 1998): two zero
// bytes, a byte for the type, a byte for the number of dimensions, the dimensions as big-endian
// 32-bit numbers, and the values, row-major.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::data {

struct IdxBytes {
  std::vector<int64_t> shape;   // [N] of labels, [N,H,W] of images; none of them is 0
  std::vector<uint8_t> values;  // row-major
};

// Reads the `bytes` of a file, plain or compressed with gzip, whose values are unsigned bytes in
// `dimensions` dimensions. `name` is the file's in messages. Never allocates more than what `bytes`
// can hold, whatever the header says. UserError: another type of file, a file of another number of
// dimensions, an empty, truncated or damaged one, or one with more bytes than its header announces.
IdxBytes ParseIdx(std::span<const uint8_t> bytes, const std::string& name, int dimensions);

}  // namespace plimsoll::data
