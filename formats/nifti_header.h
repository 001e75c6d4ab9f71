// The header of a NIfTI-1 file, checked before it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/nifti_grid.h"

namespace plimsoll::formats {

inline constexpr size_t kNiftiHeaderBytes = 348;
inline constexpr size_t kNiftiValuesBegin = 352;  // in files without extensions

// By NIfTI's numbers.
enum class NiftiType : int16_t {
  kUint8 = 2,
  kInt16 = 4,
  kInt32 = 8,
  kFloat32 = 16,
  kFloat64 = 64,
  kInt8 = 256,
  kUint16 = 512,
  kUint32 = 768,
  kInt64 = 1024,
  kUint64 = 1280,
};

size_t BytesOf(NiftiType type);

struct NiftiHeader {
  NiftiGrid grid;
  NiftiType type = NiftiType::kUint8;
  bool swapped = false;              // values are in the other byte order than this machine's
  double slope = 1, offset = 0;      // value = slope · stored + offset
  size_t begin = kNiftiValuesBegin;  // of the values in the file

  // Of all values in the file. No overflow: grid.values() has passed the limit.
  size_t bytes() const { return static_cast<size_t>(grid.values()) * BytesOf(type); }
};

// `bytes`: the beginning of the file `name`; fewer than kNiftiHeaderBytes mean that it has no more.
// UserErrors as of ParseNifti.
NiftiHeader ParseNiftiHeader(std::span<const uint8_t> bytes, const std::string& name,
                             int64_t most_values);

// The kNiftiValuesBegin bytes before the values of a little-endian file. No side of `grid` is
// longer than 32767.
std::vector<uint8_t> NiftiHeaderBytes(const NiftiGrid& grid, NiftiType type);

}  // namespace plimsoll::formats
