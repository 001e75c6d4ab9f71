#include "data/images/idx_file.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/data/image_folders.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

IdxBytes Parse(const std::string& bytes, int dimensions) {
  return ParseIdx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "a/file",
                  dimensions);
}

TEST(IdxFile, IsReadPlainAndCompressed) {
  const std::string images = Idx({2, 1, 3}, {1, 2, 3, 4, 5, '\xff'});
  const std::string zipped = Gzip(images);
  // Several parts are one file, as gzip has it.
  for (const std::string& bytes :
       {images, zipped, Gzip(images.substr(0, 7)) + Gzip(images.substr(7))}) {
    const IdxBytes read = Parse(bytes, 3);
    EXPECT_EQ(read.shape, (std::vector<int64_t>{2, 1, 3}));
    EXPECT_EQ(read.values, (std::vector<uint8_t>{1, 2, 3, 4, 5, 255}));
  }
  EXPECT_EQ(Parse(IdxLabels(3), 1).values, (std::vector<uint8_t>{0, 1, 2}));
  EXPECT_EQ(Parse(IdxImages(300, 28, 28), 3).values.size(), 300u * 28 * 28);
}

TEST(IdxFile, OfAnotherTypeIsRefused) {
  ExpectUserError([] { Parse("PK\3\4 and more of it", 3); },
                  {"a/file: ", "50 4b 03 04", "00 00 08 03"});
  ExpectUserError([] { Parse("no", 1); }, {"a/file: ", "6e 6f", "00 00 08 01"});
  std::string floats = IdxLabels(4);
  floats[2] = 0x0d;
  ExpectUserError([&] { Parse(floats, 1); }, {"a/file: ", "00 00 0d 01"});
  ExpectUserError([] { Parse(IdxLabels(4), 3); }, {"a/file: ", "has 1 dimension, where 3"});
  ExpectUserError([] { Parse(IdxImages(1, 2, 2), 1); }, {"a/file: ", "has 3 dimensions, where 1"});
  ExpectUserError([] { Parse(Xz(IdxLabels(4)), 1); }, {"a/file: ", "unpack it"});
}

TEST(IdxFile, MustHaveTheSizeThatItAnnounces) {
  const std::string whole = IdxImages(2, 3, 4);
  for (const size_t size : {size_t{0}, size_t{3}, size_t{15}, size_t{16}, whole.size() - 1}) {
    ExpectUserError([&] { Parse(whole.substr(0, size), 3); }, {"a/file: truncated"});
    ExpectUserError([&] { Parse(Gzip(whole.substr(0, size)), 3); }, {"a/file: truncated"});
  }
  ExpectUserError([&] { Parse(whole + "x", 3); }, {"a/file: ", "more than the 2 × 3 × 4 bytes"});
  ExpectUserError([&] { Parse(Gzip(whole + "x"), 3); }, {"more than the 2 × 3 × 4 bytes"});
  ExpectUserError([] { Parse(Idx({2, 0, 4}, ""), 3); }, {"a/file: is empty", "2 × 0 × 4"});

  const std::string zipped = Gzip(whole);
  ExpectUserError([&] { Parse(zipped.substr(0, zipped.size() - 9), 3); }, {"a/file: truncated"});
  std::string damaged = zipped;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  ExpectUserError([&] { Parse(damaged, 3); }, {"a/file: ", "damaged"});
}

// A header can announce 2^96 bytes; products of it fit into no number of 64 bits.
TEST(IdxFile, OfALyingHeaderTakesNoMemory) {
  constexpr uint32_t kMost = 0xffffffff;
  for (const auto& shape :
       {std::vector<uint32_t>{kMost, kMost, kMost}, std::vector<uint32_t>{1u << 31, 1u << 31, 4},
        std::vector<uint32_t>{60000, 5000, 5000}}) {
    const std::string header = Idx(shape, "abc");
    for (const std::string& bytes : {header, Gzip(header)}) {
      ExpectUserError([&] { Parse(bytes, 3); }, {"a/file: truncated", "copy the file again"});
    }
  }
  // What deflate can hold at most is allowed: zeros.
  const std::string zeros = Idx({1000, 100, 100}, std::string(10'000'000, '\0'));
  EXPECT_EQ(Parse(Gzip(zeros), 3).values.size(), 10'000'000u);
}

}  // namespace
}  // namespace plimsoll::data
