#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

namespace plimsoll {
namespace {

// RFC 3720, appendix B.4, and the check value of the polynomial.
TEST(Crc32c, HasThePublishedValues) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cu);
  // A SCSI command of 48 bytes.
  std::string read10(48, '\0');
  const std::pair<int, int> bytes[] = {{0, 0x01},  {1, 0xc0},  {16, 0x14}, {22, 0x04},
                                       {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}};
  for (const auto& [at, byte] : bytes) read10[at] = static_cast<char>(byte);
  EXPECT_EQ(Crc32c(read10), 0xd9963a56u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

// Bit by bit, as the polynomial says.
uint32_t BitByBit(std::string_view text) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : text) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, AgreesWithThePolynomialAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::string text(300, ' ');
  for (char& c : text) c = static_cast<char>(random());
  for (size_t from = 0; from < 9; ++from) {
    for (size_t length = 0; from + length <= text.size(); ++length) {
      const std::string_view part = std::string_view(text).substr(from, length);
      ASSERT_EQ(Crc32c(part), BitByBit(part)) << from << " " << length;
    }
  }
}

TEST(Crc32c, ContinuesWhatCameBefore) {
  const std::string text = "a snapshot is read in as many pieces as is convenient";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text)) << cut;
  }
}

TEST(Crc32c, IsCombinedOfTwo) {
  std::mt19937 random(2);
  std::string text(100'003, ' ');
  for (char& c : text) c = static_cast<char>(random());
  const std::string_view all = text;
  for (const size_t cut : {0, 1, 7, 8, 63, 4096, 65537, 100'002, 100'003}) {
    const uint32_t first = Crc32c(all.substr(0, cut)), second = Crc32c(all.substr(cut));
    EXPECT_EQ(CombineCrc32c(first, second, all.size() - cut), Crc32c(all)) << cut;
  }
  // The second's length counts: beyond 2^32 bytes as well.
  const uint32_t zero = CombineCrc32c(Crc32c("a"), 0, uint64_t{1} << 33);
  const uint32_t half = CombineCrc32c(Crc32c("a"), 0, uint64_t{1} << 32);
  EXPECT_EQ(CombineCrc32c(half, 0, uint64_t{1} << 32), zero);
  EXPECT_NE(half, zero);
}

}  // namespace
}  // namespace plimsoll
