#include "data/images/picture_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/jpeg.h"
#include "formats/png.h"
#include "tests/data/image_folders.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

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

TEST(PictureFiles, FollowsLinksInFolders) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "own");
  std::filesystem::create_directories(folder / "elsewhere");
  folder.Write("elsewhere/a.pgm", "P5 1 1 255\na");
  folder.Write("elsewhere/my[1].pgm", "P5 1 1 255\nb");
  std::filesystem::create_symlink("../elsewhere", folder / "own/linked");
  EXPECT_EQ(FindPictures({folder / "own"}),
            (std::vector{folder / "own/linked/a.pgm", folder / "own/linked/my[1].pgm"}));
  std::filesystem::create_symlink("gone", folder / "own/broken");
  ExpectUserError([&] { FindPictures({folder / "own"}); }, {"/own/broken: is a link to gone"});
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

TEST(PictureFiles, ReadsJpegAndPngAtAnyDepth) {
  const TempFolder folder;
  const std::vector<uint8_t> pixels = {1, 2, 3, 40, 50, 60, 7, 8, 9, 10, 11, 12};
  const auto text = [](const std::vector<uint8_t>& bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  std::filesystem::create_directories(folder / "cats/more");
  const std::string png = folder.Write("cats/more/a.png", text(formats::EncodePng(2, 2, pixels)));
  const std::string jpeg =
      folder.Write("b.jpeg", text(formats::EncodeJpeg(3, 4, std::vector<uint8_t>(12, 77), 90)));
  folder.Write("cats/notes.txt", "text");
  EXPECT_EQ(FindPictures({folder.path()}), (std::vector<std::string>{jpeg, png}));
  EXPECT_FALSE(HoldsSeveral(png));
  const std::vector<Seen> coloured = Read(png), grey = Read(jpeg);
  ASSERT_EQ(coloured.size(), 1u);
  EXPECT_EQ(coloured[0].number, -1);
  EXPECT_EQ(coloured[0].size, (ImageSize{2, 2, 3}));
  EXPECT_EQ(coloured[0].pixels, std::vector<int>(pixels.begin(), pixels.end()));
  ASSERT_EQ(grey.size(), 1u);
  EXPECT_EQ(grey[0].size, (ImageSize{3, 4, 1}));
  EXPECT_EQ(grey[0].pixels, std::vector<int>(12, 77));
}

TEST(PictureFiles, RefusesWhatItDoesNotRead) {
  const TempFolder folder;
  const auto refused = [&](const std::string& contents,
                           std::initializer_list<std::string_view> parts) {
    const std::string path = folder.Write("x.jpg", contents);
    ExpectUserError([&] { Read(path); }, parts);
  };
  const std::string convert = "convert " + folder / "x.jpg" + " " + folder / "x.ppm";
  refused("GIF89a", {"x.jpg: is a GIF picture", convert});
  refused("\xff\xd8\xff\xe0", {"x.jpg: is truncated"});
  refused("\x89PNG\r\n\x1a\n", {"x.jpg: is a truncated or damaged PNG file"});
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

}  // namespace
}  // namespace plimsoll::data
