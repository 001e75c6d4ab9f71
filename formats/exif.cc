#include "formats/exif.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace plimsoll::formats {
namespace {

constexpr uint32_t kOrientationTag = 0x0112, kShortType = 3;
constexpr size_t kEntryBytes = 12;

// Reads numbers of 1 to 4 bytes in the file's byte order. Returns nullopt beyond the end.
class TiffBytes {
 public:
  TiffBytes(std::span<const uint8_t> bytes, bool big) : bytes_(bytes), big_(big) {}

  std::optional<uint32_t> Number(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) return std::nullopt;
    uint32_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      number = number << 8 | bytes_[at + (big_ ? i : count - 1 - i)];
    }
    return number;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_;
};

}  // namespace

int ExifOrientation(std::span<const uint8_t> tiff) {
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return 1;
  const TiffBytes bytes(tiff, tiff[0] == 'M');
  if (bytes.Number(2, 2) != 42u) return 1;
  const size_t directory = *bytes.Number(4, 4);
  const uint32_t entries = bytes.Number(directory, 2).value_or(0);
  for (uint32_t i = 0; i < entries; ++i) {
    // An entry consists of a tag, a type, a count and an offset; a value of 2 bytes is stored in
    // place of the offset.
    const size_t entry = directory + 2 + i * kEntryBytes;
    const std::optional<uint32_t> tag = bytes.Number(entry, 2);
    if (!tag) return 1;
    if (*tag != kOrientationTag) continue;
    const std::optional<uint32_t> value = bytes.Number(entry + 8, 2);
    const bool fits =
        bytes.Number(entry + 2, 2) == kShortType && value && *value >= 1 && *value <= 8;
    return fits ? static_cast<int>(*value) : 1;
  }
  return 1;
}

int App1Orientation(std::span<const uint8_t> segment) {
  constexpr std::array<uint8_t, 6> kExif = {'E', 'x', 'i', 'f', 0, 0};
  if (segment.size() < kExif.size() || !std::ranges::equal(kExif, segment.first(kExif.size()))) {
    return 1;
  }
  return ExifOrientation(segment.subspan(kExif.size()));
}

}  // namespace plimsoll::formats
