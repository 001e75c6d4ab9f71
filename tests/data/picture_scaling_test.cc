// Resizing against Pillow's (make_picture_scaling_golden.py).
#include "data/images/picture_scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

std::vector<uint8_t> PixelsOf(const ImageSize& size) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < size.elements(); ++i) {
    pixels.push_back(static_cast<uint8_t>((i * 37 + i * i * 11) % 256));
  }
  return pixels;
}

std::string HexOf(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

TEST(PictureScaling, HasPillowsBits) {
  const auto cases = nlohmann::json::parse(ReadFile("tests/data/testdata/picture_scaling.json"));
  EXPECT_EQ(cases.size(), 6u * 13);
  for (const nlohmann::json& c : cases) {
    const std::vector<int64_t> dims = c["size"], box = c["box"], to = c["to"];
    const ImageSize size = {dims[0], dims[1], dims[2]};
    const ImageBox part = {box[0], box[1], box[2], box[3]};
    const auto filter = static_cast<Resampling>(c["resample"].get<int>());
    EXPECT_EQ(HexOf(Resized(PixelsOf(size), size, part, to[0], to[1], filter)),
              c["after"].get<std::string>())
        << c;
  }
}

TEST(PictureScaling, LeavesAPictureOfTheSameSize) {
  const ImageSize size = {5, 7, 3};
  EXPECT_EQ(Resized(PixelsOf(size), size, 5, 7), PixelsOf(size));
}

TEST(PictureScaling, KeepsTheRatioOfTheSides) {
  EXPECT_EQ(WithShorterSide({375, 500, 3}, 256), (ImageSize{256, 341, 3}));
  EXPECT_EQ(WithShorterSide({500, 375, 1}, 256), (ImageSize{341, 256, 1}));
  EXPECT_EQ(WithShorterSide({28, 28, 1}, 32), (ImageSize{32, 32, 1}));
  EXPECT_EQ(WithShorterSide({1, 1000, 3}, 2), (ImageSize{2, 2000, 3}));
}

TEST(PictureScaling, TakesTheMiddleOfAResizedPicture) {
  for (const Resampling filter :
       {Resampling::kNearest, Resampling::kBilinear, Resampling::kBicubic, Resampling::kLanczos}) {
    for (const ImageSize& size : {ImageSize{11, 17, 3}, ImageSize{40, 9, 1}, ImageSize{6, 6, 1}}) {
      const ImageSize whole = WithShorterSide(size, 8);
      const std::vector<uint8_t> all =
          Resized(PixelsOf(size), size, whole.height, whole.width, filter);
      const std::vector<uint8_t> middle = ResizedMiddle(PixelsOf(size), size, whole, 7, 5, filter);
      ASSERT_EQ(std::ssize(middle), 7 * 5 * size.channels);
      const int64_t top = (whole.height - 7) / 2, left = (whole.width - 5) / 2;
      for (int64_t i = 0; i < std::ssize(middle); ++i) {
        const int64_t pixel = i / size.channels;
        const int64_t at = ((top + pixel / 5) * whole.width + left + pixel % 5) * size.channels;
        EXPECT_EQ(middle[static_cast<size_t>(i)], all[static_cast<size_t>(at + i % size.channels)]);
      }
    }
  }
  // The whole of this would have 3 GB.
  const ImageSize line = {1, 65'000, 1};
  EXPECT_EQ(ResizedMiddle(PixelsOf(line), line, WithShorterSide(line, 224), 224, 224).size(),
            224u * 224);
}

// Pillow's Image.convert("L").
TEST(PictureScaling, MakesGreyAsPillow) {
  const ImageSize colours = {2, 2, 3};
  EXPECT_EQ(WithChannels(PixelsOf(colours), colours, 1), (std::vector<uint8_t>{42, 126, 76, 194}));
  EXPECT_EQ(WithChannels(std::vector<uint8_t>{7, 9}, {1, 2, 1}, 3),
            (std::vector<uint8_t>{7, 7, 7, 9, 9, 9}));
}

}  // namespace
}  // namespace plimsoll::data
