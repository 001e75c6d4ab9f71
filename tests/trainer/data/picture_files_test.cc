#include "trainer/data/picture_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/data/image_folders.h"
#include "trainer/data/picture_scaling.h"

namespace plimsoll::data {
namespace {

struct Seen {
  int64_t number;
  ImageSize size;
  std::vector<int> pixels;
};

std::vector<Seen> Read(const std::string& path) {
  std::vector<Seen> all;
  ForEachPicture(path, [&](const Picture& picture) {
    EXPECT_EQ(picture.file, path);
    all.push_back({picture.number, picture.size, {picture.pixels.begin(), picture.pixels.end()}});
  });
  return all;
}

TEST(PictureFiles, ReadsNetpbmWithItsCommentsAndScales) {
  const TempFolder folder;
  const std::string grey = folder.Write("a.pgm", "P5\n# made by hand\n 3 # wide\n2\n255\nabcdef");
  const std::vector<Seen> one = Read(grey);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].number, -1);
  EXPECT_EQ(one[0].size, (ImageSize{2, 3, 1}));
  EXPECT_EQ(one[0].pixels, (std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_FALSE(HoldsSeveral(grey));

  const std::vector<Seen> coloured =
      Read(folder.Write("b", std::string("P6 1 1 15 \x00\x0f\x05", 13)));
  ASSERT_EQ(coloured.size(), 1u);
  EXPECT_EQ(coloured[0].size, (ImageSize{1, 1, 3}));
  EXPECT_EQ(coloured[0].pixels, (std::vector<int>{0, 255, 85}));
}

TEST(PictureFiles, ReadsTheImagesOfDataSets) {
  const TempFolder folder;
  WriteIdxFolder(folder, 3, 2);
  const std::vector<Seen> idx = Read(folder / "t10k-images-idx3-ubyte");
  ASSERT_EQ(idx.size(), 2u);
  EXPECT_EQ(idx[1].number, 1);
  EXPECT_EQ(idx[1].size, (ImageSize{3, 4, 1}));
  EXPECT_EQ(idx[1].pixels[0], 255 - 12);
  EXPECT_TRUE(HoldsSeveral(folder / "t10k-images-idx3-ubyte"));
  folder.Write("t10k-images-idx3-ubyte.gz", Gzip(folder.Read("t10k-images-idx3-ubyte")));
  folder.Write("t10k-labels-idx1-ubyte.gz", Gzip(folder.Read("t10k-labels-idx1-ubyte")));
  EXPECT_EQ(Read(folder / "t10k-images-idx3-ubyte.gz")[1].pixels, idx[1].pixels);

  const std::string cifar =
      folder.Write("some.bin", CifarRecord(3, 1, 50, 100) + CifarRecord(4, 2, 51, 101));
  const std::vector<Seen> colours = Read(cifar);
  ASSERT_EQ(colours.size(), 2u);
  EXPECT_EQ(colours[1].size, (ImageSize{32, 32, 3}));
  EXPECT_EQ(colours[1].pixels[0], 2);
  EXPECT_EQ(colours[1].pixels[1], 51);

  // Of a folder what holds pictures, in order.
  folder.Write("README", "text");
  folder.Write("a.ppm", "P6 1 1 255 abc");
  EXPECT_EQ(FindPictures({folder / "README", folder.path()}),
            (std::vector<std::string>{
                folder / "README", folder / "a.ppm", cifar, folder / "t10k-images-idx3-ubyte",
                folder / "t10k-images-idx3-ubyte.gz", folder / "train-images-idx3-ubyte"}));
}

TEST(PictureFiles, RefusesWhatItDoesNotRead) {
  const TempFolder folder;
  const auto refused = [&](const std::string& contents,
                           std::initializer_list<std::string_view> parts) {
    const std::string path = folder.Write("x.jpg", contents);
    ExpectUserError([&] { Read(path); }, parts);
  };
  const std::string convert = "convert " + folder / "x.jpg" + " " + folder / "x.ppm";
  refused("\xff\xd8\xff\xe0", {"x.jpg: is a JPEG picture", convert});
  refused("\x89PNG\r\n", {"is a PNG picture", convert});
  refused("P3\n1 1\n255\n1 2 3\n", {"is a Netpbm picture in ASCII", convert});
  refused("text", {"x.jpg: is no picture that is read"});
  refused("P5 3 2 255 abcde", {"has 5 bytes of pixels, and its header announces 6"});
  refused("P5 3 2 255 abcdefg", {"has 7 bytes"});
  refused("P5 3 2 65535 abcdefabcdef", {"values go up to 65535", "-depth 8"});
  refused("P5 3", {"its header has no height"});
  refused("P6 0 5 255 ", {"announces 0 × 5 pixels"});
  refused("P6 99999999999999999999 5 255 ", {"pixels"});
  const std::string missing = folder / "missing";
  EXPECT_EQ(FindPictures({missing}), std::vector<std::string>{missing});
  EXPECT_FALSE(HoldsSeveral(missing));
  ExpectUserError([&] { Read(missing); }, {"missing: cannot be opened", "check the path"});
  const TempFolder empty;
  ExpectUserError([&] { FindPictures({empty.path()}); }, {"holds no pictures"});
}

// Pillow 13, which rounds between its two passes: Image.resize((W, H), Image.BILINEAR), and
// Image.convert("L").
TEST(PictureScaling, IsPillows) {
  const auto picture = [](const ImageSize& size) {
    std::vector<uint8_t> pixels;
    for (int64_t i = 0; i < size.elements(); ++i) {
      pixels.push_back(static_cast<uint8_t>((i * 37 + i * i * 11) % 256));
    }
    return pixels;
  };
  struct Case {
    ImageSize size;
    int64_t height, width;
    std::vector<int> expected;
  };
  for (const Case& c :
       {Case{{7, 5, 1}, 3, 4, {123, 106, 150, 146, 157, 181, 142, 86, 95, 181, 135, 110}},
        Case{{3, 4, 3}, 5, 2, {105, 54,  171, 161, 104, 215, 148, 56, 162, 175,
                               121, 148, 212, 59,  148, 196, 147, 47, 114, 120,
                               147, 121, 164, 113, 49,  160, 147, 71, 176, 157}},
        Case{{9, 9, 1}, 2, 2, {134, 138, 156, 141}}}) {
    const std::vector<uint8_t> resized = Resized(picture(c.size), c.size, c.height, c.width);
    ASSERT_EQ(resized.size(), c.expected.size());
    for (size_t i = 0; i < resized.size(); ++i) EXPECT_NEAR(resized[i], c.expected[i], 1) << i;
  }
  const ImageSize colours = {2, 2, 3};
  const std::vector<uint8_t> grey = WithChannels(picture(colours), colours, 1);
  EXPECT_EQ(std::vector<int>(grey.begin(), grey.end()), (std::vector<int>{42, 126, 76, 194}));
  EXPECT_EQ(WithChannels(std::vector<uint8_t>{7, 9}, {1, 2, 1}, 3),
            (std::vector<uint8_t>{7, 7, 7, 9, 9, 9}));
}

}  // namespace
}  // namespace plimsoll::data
