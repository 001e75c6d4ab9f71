// Parses and checks the header of a NIfTI-1 file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/nifti_grid.h"

namespace plimsoll::formats {

inline constexpr size_t kNiftiHeaderBytes = 348;
// Offset of the values in files without extensions.
inline constexpr size_t kNiftiValuesBegin = 352;

// Types, numbered as in NIfTI.
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
  bool swapped = false;              // the values' byte order differs from this machine's
  double slope = 1, offset = 0;      // real value = slope · stored + offset
  size_t begin = kNiftiValuesBegin;  // offset of the values in the file

  // The size of all values in the file. It cannot overflow, since grid.values() is within the
  // limit.
  size_t bytes() const { return static_cast<size_t>(grid.values()) * BytesOf(type); }
};

// `bytes`: the beginning of the file `name`; if they are fewer than kNiftiHeaderBytes, the file is
// shorter than a header. Throws the UserErrors of ParseNifti.
NiftiHeader ParseNiftiHeader(std::span<const uint8_t> bytes, const std::string& name,
                             int64_t most_values);

// Returns the kNiftiValuesBegin bytes before the values of a little-endian file. No side of `grid`
// may be longer than 32767.
std::vector<uint8_t> NiftiHeaderBytes(const NiftiGrid& grid, NiftiType type);

}  // namespace plimsoll::formats
