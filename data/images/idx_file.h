// IDX files, the format of MNIST and similar data sets (LeCun, Cortes, Burges 1998): two zero
// bytes, a byte for the type, a byte for the number of dimensions, the dimensions as big-endian
// 32-bit numbers, and the values, row-major.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::data {

struct IdxBytes {
  std::vector<int64_t> shape;   // [N] for labels, [N,H,W] for images; no dimension is 0
  std::vector<uint8_t> values;  // row-major
};

// Parses an IDX file from its `bytes`, plain or compressed with gzip. Its values must be unsigned
// bytes in `dimensions` dimensions. `name` is the file's name in messages. Never allocates more
// than `bytes` can hold, whatever the header says. UserErrors: the file has another type or number
// of dimensions, is empty, truncated or damaged, or has more bytes than its header announces.
IdxBytes ParseIdx(std::span<const uint8_t> bytes, const std::string& name, int dimensions);

}  // namespace plimsoll::data
