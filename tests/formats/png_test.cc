#include "formats/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll::formats {
namespace {

size_t Number(const std::vector<uint8_t>& file, size_t at) {
  return size_t{file[at]} << 24 | size_t{file[at + 1]} << 16 | size_t{file[at + 2]} << 8 |
         file[at + 3];
}

TEST(Png, HoldsThePixelsInItsChunks) {
  const std::vector<uint8_t> pixels = {1,  2,  3,  4,  5,  6,  7,  8,  9,
                                       10, 11, 12, 13, 14, 15, 16, 17, 18};
  const std::vector<uint8_t> file = EncodePng(3, 2, pixels);
  EXPECT_EQ(std::string(file.begin(), file.begin() + 8), "\x89PNG\r\n\x1a\n");

  // Length, type, content and checksum each.
  std::vector<std::string> types;
  std::vector<uint8_t> compressed;
  size_t at = 8;
  while (at + 12 <= file.size()) {
    const size_t length = Number(file, at), end = at + 8 + length;
    ASSERT_LE(end + 4, file.size());
    types.emplace_back(file.begin() + static_cast<ptrdiff_t>(at + 4),
                       file.begin() + static_cast<ptrdiff_t>(at + 8));
    EXPECT_EQ(Number(file, end), crc32(0, file.data() + at + 4, static_cast<uInt>(length + 4)));
    if (types.back() == "IHDR") {
      EXPECT_EQ(Number(file, at + 8), 3u);
      EXPECT_EQ(Number(file, at + 12), 2u);
      EXPECT_EQ(file[at + 16], 8);  // bits
      EXPECT_EQ(file[at + 17], 2);  // red, green, blue
    }
    if (types.back() == "IDAT") {
      compressed.assign(file.begin() + static_cast<ptrdiff_t>(at + 8),
                        file.begin() + static_cast<ptrdiff_t>(end));
    }
    at = end + 4;
  }
  EXPECT_EQ(at, file.size());
  EXPECT_EQ(types, (std::vector<std::string>{"IHDR", "IDAT", "IEND"}));

  std::vector<uint8_t> rows(20);
  uLongf size = rows.size();
  ASSERT_EQ(uncompress(rows.data(), &size, compressed.data(), compressed.size()), Z_OK);
  EXPECT_EQ(rows, (std::vector<uint8_t>{0, 1,  2,  3,  4,  5,  6,  7,  8,  9,
                                        0, 10, 11, 12, 13, 14, 15, 16, 17, 18}));
}

TEST(Png, RefusesPixelsOfAnotherSize) {
  EXPECT_THROW(EncodePng(2, 2, std::vector<uint8_t>(11)), InternalError);
  EXPECT_THROW(EncodePng(0, 0, {}), InternalError);
}

}  // namespace
}  // namespace plimsoll::formats
