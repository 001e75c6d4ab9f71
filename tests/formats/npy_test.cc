#include "formats/npy.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::formats {
namespace {

// What numpy.save writes before such arrays.
TEST(Npy, HeadersAreThoseOfNumPy) {
  using namespace std::string_literals;
  const auto header = [](const std::vector<int64_t>& shape) { return NpyHeader(shape); };
  const std::string begin = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "s;
  EXPECT_EQ(header({3, 5}), begin + "'shape': (3, 5), }" + std::string(58, ' ') + "\n");
  EXPECT_EQ(header({0, 64}), begin + "'shape': (0, 64), }" + std::string(57, ' ') + "\n");
  EXPECT_EQ(header({7}), begin + "'shape': (7,), }" + std::string(60, ' ') + "\n");
  EXPECT_EQ(header({}), begin + "'shape': (), }" + std::string(62, ' ') + "\n");
}

// Whatever the shape, elements begin at a multiple of 64, right behind a line end.
TEST(Npy, ElementsAreAligned) {
  std::vector<int64_t> shape;
  for (int64_t size = 1; size < 40; ++size) {
    shape.push_back(size);
    const std::string text = NpyHeader(shape);
    EXPECT_EQ(text.size() % 64, 0u);
    EXPECT_EQ(text.back(), '\n');
    const size_t length = static_cast<uint8_t>(text[8]) + 256u * static_cast<uint8_t>(text[9]);
    EXPECT_EQ(text.size(), 10 + length);
  }
}

}  // namespace
}  // namespace plimsoll::formats
