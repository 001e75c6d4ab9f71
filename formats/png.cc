#include "formats/png.h"

#include <zlib.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "base/error.h"

namespace plimsoll::formats {
namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint8_t kBits = 8, kGrey = 0, kRgb = 2;  // of a sample; types of colours

void AppendNumber(std::vector<uint8_t>& file, size_t number) {
  for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(number >> shift));
}

// Length, type, content and the checksum of the last two.
void AppendChunk(std::vector<uint8_t>& file, std::string_view type,
                 std::span<const uint8_t> content) {
  AppendNumber(file, content.size());
  const size_t checked = file.size();
  file.insert(file.end(), type.begin(), type.end());
  file.insert(file.end(), content.begin(), content.end());
  AppendNumber(file, crc32(0, file.data() + checked, static_cast<uInt>(file.size() - checked)));
}

}  // namespace

std::vector<uint8_t> EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels) {
  const bool grey = std::ssize(pixels) == width * height;
  const auto row_bytes = static_cast<size_t>((grey ? 1 : 3) * width);
  if (width < 1 || height < 1 || pixels.size() != row_bytes * static_cast<size_t>(height)) {
    throw InternalError("a picture of another size than its pixels");
  }
  // Each row begins with the number of its filter; 0: none.
  std::vector<uint8_t> rows;
  for (size_t begin = 0; begin < pixels.size(); begin += row_bytes) {
    rows.push_back(0);
    rows.insert(rows.end(), pixels.begin() + static_cast<ptrdiff_t>(begin),
                pixels.begin() + static_cast<ptrdiff_t>(begin + row_bytes));
  }
  uLongf size = compressBound(rows.size());
  std::vector<uint8_t> compressed(size);
  if (compress(compressed.data(), &size, rows.data(), rows.size()) != Z_OK) {
    throw InternalError("zlib does not compress a picture");
  }
  compressed.resize(size);

  std::vector<uint8_t> header;
  AppendNumber(header, static_cast<size_t>(width));
  AppendNumber(header, static_cast<size_t>(height));
  // The last three: deflate, filters by row, not interlaced.
  header.insert(header.end(), {kBits, grey ? kGrey : kRgb, 0, 0, 0});
  std::vector<uint8_t> file(kSignature.begin(), kSignature.end());
  AppendChunk(file, "IHDR", header);
  AppendChunk(file, "IDAT", compressed);
  AppendChunk(file, "IEND", {});
  return file;
}

}  // namespace plimsoll::formats
