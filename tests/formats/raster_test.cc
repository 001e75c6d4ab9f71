// Decoding of JPEG and PNG files, against Pillow's pixels (testdata/make_rasters.py).
#include "formats/raster.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/decode_raster.h"
#include "formats/exif.h"
#include "formats/jpeg.h"
#include "formats/png.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes BytesOf(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct Golden {
  Bytes file;
  Raster raster;
};

std::map<std::string, Golden> Goldens() {
  std::map<std::string, Golden> goldens;
  for (const nlohmann::json& line :
       nlohmann::json::parse(ReadFile("tests/formats/testdata/rasters.json"))) {
    goldens[line["name"]] = {.file = BytesOf(line["file"]),
                             .raster = {.height = line["height"],
                                        .width = line["width"],
                                        .channels = line["channels"],
                                        .pixels = BytesOf(line["pixels"])}};
  }
  return goldens;
}

// The last place of `text` in a file.
size_t Find(const Bytes& file, const std::string& text) {
  const auto found = std::ranges::find_end(file, Bytes(text.begin(), text.end()));
  EXPECT_FALSE(found.empty()) << text;
  return static_cast<size_t>(found.begin() - file.begin());
}

void ExpectRefusal(const Bytes& file, std::initializer_list<std::string_view> parts,
                   int64_t most_pixels = kMostRasterPixels) {
  ExpectUserError([&] { DecodeRaster(file, "some file", most_pixels); }, parts);
}

TEST(Raster, HasPillowsPixels) {
  const std::map<std::string, Golden> goldens = Goldens();
  EXPECT_EQ(goldens.size(), 34u);
  for (const auto& [name, golden] : goldens) {
    const Raster read = DecodeRaster(golden.file, name);
    EXPECT_EQ(read.height, golden.raster.height) << name;
    EXPECT_EQ(read.width, golden.raster.width) << name;
    EXPECT_EQ(read.channels, golden.raster.channels) << name;
    EXPECT_EQ(read.pixels, golden.raster.pixels) << name;
  }
}

TEST(Raster, EveryOrientationShowsTheSamePicture) {
  // Rows 1 2 3 and 4 5 6, two channels.
  const Raster raster = {
      .height = 2, .width = 3, .channels = 2, .pixels = {1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16}};
  const std::map<int, std::vector<int>> expected = {
      {1, {1, 2, 3, 4, 5, 6}}, {2, {3, 2, 1, 6, 5, 4}}, {3, {6, 5, 4, 3, 2, 1}},
      {4, {4, 5, 6, 1, 2, 3}}, {5, {1, 4, 2, 5, 3, 6}}, {6, {4, 1, 5, 2, 6, 3}},
      {7, {6, 3, 5, 2, 4, 1}}, {8, {3, 6, 2, 5, 1, 4}}};
  for (const auto& [orientation, values] : expected) {
    const Raster seen = Oriented(raster, orientation);
    EXPECT_EQ(seen.height, orientation < 5 ? 2 : 3) << orientation;
    EXPECT_EQ(seen.width, orientation < 5 ? 3 : 2) << orientation;
    std::vector<int> first;
    for (size_t i = 0; i < seen.pixels.size(); i += 2) {
      first.push_back(seen.pixels[i]);
      EXPECT_EQ(seen.pixels[i + 1], seen.pixels[i] + 10);
    }
    EXPECT_EQ(first, values) << orientation;
  }
  for (const int none : {-1, 0, 9}) EXPECT_EQ(Oriented(raster, none), raster);
}

TEST(Exif, IsReadWithinItsBoundsAndNoFurther) {
  const Bytes little = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  const Bytes big = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0};
  EXPECT_EQ(ExifOrientation(little), 6);
  EXPECT_EQ(ExifOrientation(big), 8);
  Bytes segment = {'E', 'x', 'i', 'f', 0, 0};
  EXPECT_EQ(App1Orientation(segment), 1);
  segment.insert(segment.end(), big.begin(), big.end());
  EXPECT_EQ(App1Orientation(segment), 8);
  EXPECT_EQ(App1Orientation(big), 1);
  for (size_t size = 0; size < little.size() - 2; ++size) {
    EXPECT_EQ(ExifOrientation(std::span(little).first(size)), 1) << size;
  }
  const auto changed = [&](size_t at, uint8_t byte) {
    Bytes other = little;
    other[at] = byte;
    return ExifOrientation(other);
  };
  EXPECT_EQ(changed(18, 9), 1);  // no orientation
  EXPECT_EQ(changed(18, 0), 1);
  EXPECT_EQ(changed(12, 4), 1);     // another type
  EXPECT_EQ(changed(10, 0x13), 1);  // another tag
  EXPECT_EQ(changed(2, 43), 1);     // no TIFF
  EXPECT_EQ(changed(7, 0xff), 1);   // a directory behind the end
  EXPECT_EQ(changed(8, 0xff), 6);   // more entries than there are
}

TEST(Raster, RefusesTruncatedFiles) {
  const std::map<std::string, Golden> goldens = Goldens();
  for (const char* name : {"colours 420.jpg", "grey.jpg", "progressive.jpg", "cmyk.jpg",
                           "colours.png", "palette 4.png", "interlaced.png"}) {
    const Bytes& file = goldens.at(name).file;
    for (size_t size = 0; size < file.size(); ++size) {
      const Bytes part(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
      const std::string message = UserErrorOf([&] { DecodeRaster(part, name); });
      EXPECT_TRUE(message.starts_with(std::string(name) + ": ")) << message;
    }
  }
  const Bytes& jpeg = goldens.at("grey.jpg").file;
  ExpectRefusal({jpeg.begin(), jpeg.end() - 60},
                {"some file: is truncated or damaged", "copy the file again"});
  const Bytes& png = goldens.at("grey.png").file;
  ExpectRefusal({png.begin(), png.end() - 20},
                {"some file: is a truncated or damaged PNG file", "its end is missing"});
}

TEST(Raster, RefusesDamagedPixels) {
  const std::map<std::string, Golden> goldens = Goldens();
  Bytes png = goldens.at("colours.png").file;
  png[Find(png, "IDAT") + 12] ^= 1;
  ExpectRefusal(png, {"damaged PNG file", "incorrect data check"});
  // A marker amid the pixels of a JPEG file.
  Bytes jpeg = goldens.at("grey.jpg").file;
  jpeg[jpeg.size() - 40] = 0xff;
  jpeg[jpeg.size() - 39] = 0xd9;
  ExpectRefusal(jpeg, {"is truncated or damaged"});
}

TEST(Raster, RefusesWhatItDoesNotRead) {
  const std::string gif = "GIF89a";
  ExpectRefusal({gif.begin(), gif.end()}, {"some file: is neither a JPEG nor a PNG file"});
  ExpectRefusal({}, {"neither a JPEG nor a PNG file"});
  // 12 bits: the first byte of the frame.
  Bytes jpeg = Goldens().at("grey.jpg").file;
  const size_t frame = Find(jpeg, "\xff\xc0");
  jpeg[frame + 4] = 12;
  ExpectRefusal(jpeg, {"some file: cannot be read", "12"});
}

// Little memory is taken for a tiny file, whatever its header says: the limits come first.
TEST(Raster, LimitsTheSizeThatAHeaderAnnounces) {
  const std::map<std::string, Golden> goldens = Goldens();
  const Golden& grey = goldens.at("grey.jpg");
  const int64_t pixels = grey.raster.height * grey.raster.width;
  EXPECT_EQ(DecodeRaster(grey.file, "some file", pixels), grey.raster);
  ExpectRefusal(grey.file, {"announces 13 × 19 pixels, and at most 246 are read"}, pixels - 1);
  Bytes jpeg = grey.file;
  std::ranges::fill_n(jpeg.begin() + static_cast<ptrdiff_t>(Find(jpeg, "\xff\xc0")) + 5, 4, 0xff);
  ExpectRefusal(jpeg, {"65500"});

  const auto announcing = [&](const std::string& name, std::initializer_list<uint8_t> sides) {
    Bytes png = goldens.at(name).file;
    std::ranges::copy(sides, png.begin() + 16);
    const auto checksum = static_cast<uint32_t>(crc32(0, png.data() + 12, 17));
    for (size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<uint8_t>(checksum >> (24 - 8 * i));
    return png;
  };
  ExpectRefusal(announcing("grey.png", {0, 0, 0xff, 0, 0, 0, 0xff, 0}),
                {"announces 65280 × 65280 pixels"});
  ExpectRefusal(announcing("grey.png", {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1}), {"some file: "});
  ExpectRefusal(announcing("grey.png", {0, 0, 0x20, 0, 0, 0, 0x20, 0}),
                {"announces more pixels than its bytes can hold"});
}

// A progressive file may have any number of scans, each of which takes the time of all pixels.
TEST(Raster, LimitsTheScansOfAJpegFile) {
  const Bytes file = Goldens().at("progressive.jpg").file;
  const auto find = [&](ptrdiff_t from, const Bytes& what) {
    return std::ranges::search(file.begin() + from, file.end(), what.begin(), what.end()).begin() -
           file.begin();
  };
  // The first scan, of the lowest frequency, may stand there any number of times.
  const ptrdiff_t begin = find(0, {0xff, 0xda}), end = find(begin, {0xff, 0xc4});
  ASSERT_LT(end, std::ssize(file));
  const auto with_scans = [&](int count) {
    Bytes many(file.begin(), file.begin() + begin);
    for (int i = 0; i < count; ++i) {
      many.insert(many.end(), file.begin() + begin, file.begin() + end);
    }
    many.insert(many.end(), file.begin() + end, file.end());
    return many;
  };
  EXPECT_EQ(DecodeRaster(with_scans(100), "some file"), DecodeRaster(file, "some file"));
  ExpectRefusal(with_scans(600), {"some file: cannot be read: it has more than 500 scans"});
}

TEST(Raster, ReadsWhatIsWritten) {
  for (const int64_t channels : {1, 3}) {
    Raster raster = {.height = 9, .width = 14, .channels = channels, .pixels = {}};
    for (int64_t i = 0; i < 9 * 14 * channels; ++i) {
      raster.pixels.push_back(static_cast<uint8_t>(i / channels));
    }
    EXPECT_EQ(DecodePng(EncodePng(14, 9, raster.pixels), "png", 1000), raster);
    const Raster read = DecodeJpeg(EncodeJpeg(9, 14, raster.pixels, 95), "jpeg", 1000);
    EXPECT_EQ(read.height, 9);
    EXPECT_EQ(read.width, 14);
    ASSERT_EQ(read.channels, channels);
    for (size_t i = 0; i < raster.pixels.size(); ++i) {
      EXPECT_NEAR(read.pixels[i], raster.pixels[i], 6) << i;
    }
  }
  EXPECT_THROW(EncodeJpeg(2, 2, Bytes(5), 90), InternalError);
}

}  // namespace
}  // namespace plimsoll::formats
