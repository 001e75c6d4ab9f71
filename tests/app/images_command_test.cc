// `plimsoll data images`.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "app/data_commands.h"
#include "base/mapped_file.h"
#include "data/images/image_folder.h"
#include "formats/decode_raster.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

formats::Raster Decoded(const std::string& path) {
  return formats::DecodeRaster(MappedFile(path).bytes(), path);
}

// 12 images to train on of 3 × 4 pixels, 5 for tests, labels 0, 1, ….
class WriteImagesTo : public testing::Test {
 protected:
  WriteImagesTo() { WriteIdxFolder(from_, 12, 5); }
  WriteImagesOptions Options(const std::string& format) const {
    return {.folder = to_ / "images", .from = from_.path(), .format = format};
  }

  const TempFolder from_, to_;
};

TEST_F(WriteImagesTo, ClassFoldersThatAreReadBack) {
  for (const std::string format : {"png", "jpeg"}) {
    const WrittenImages written = WriteImages(Options(format));
    EXPECT_EQ(written.train, 12);
    EXPECT_EQ(written.test, 5);
    const std::string ending = format == "png" ? ".png" : ".jpg";
    for (int i = 0; i < 12; ++i) {
      const std::string path = to_ / "images/train/" + std::to_string(i % 10) + "/000" +
                               (i < 10 ? "0" : "") + std::to_string(i) + ending;
      const formats::Raster image = Decoded(path);
      EXPECT_EQ(image.height, 3);
      EXPECT_EQ(image.width, 4);
      ASSERT_EQ(image.channels, 1);
      for (int pixel = 0; pixel < 12; ++pixel) {
        EXPECT_NEAR(image.pixels[static_cast<size_t>(pixel)], 12 * i + pixel,
                    format == "png" ? 0 : 3);
      }
    }
    EXPECT_EQ(Decoded(to_ / ("images/test/4/00004" + ending)).height, 3);
    fs::remove_all(to_ / "images");
  }
}

TEST_F(WriteImagesTo, ColouredImagesAndSoManyOfEachClass) {
  const TempFolder cifar;
  WriteCifarFolder(cifar);
  WriteImagesOptions options = Options("png");
  options.from = cifar.path();
  options.train = options.test = 1;
  options.classes = {"j", "i", "h", "g", "f", "e", "d", "c", "b", "a"};
  const WrittenImages written = WriteImages(options);
  EXPECT_EQ(written.train, 10);
  EXPECT_EQ(written.test, 1);
  const formats::Raster image = Decoded(to_ / "images/train/h/00002.png");
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels[3], 3);
  EXPECT_EQ(image.pixels[4], 53);
  EXPECT_TRUE(fs::exists(to_ / "images/test/c/00000.png"));
}

TEST_F(WriteImagesTo, RefusesWhatCannotBe) {
  const auto refused = [&](const auto& change) {
    WriteImagesOptions options = Options("png");
    change(options);
    return UserErrorOf([&] { WriteImages(options); });
  };
  using Options = WriteImagesOptions;
  EXPECT_NE(refused([](Options& o) { o.format = "gif"; }).find("--format gif"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.classes = {"a"}; }).find("1 name for 10 classes"),
            std::string::npos);
  EXPECT_NE(refused([](Options& o) {
              o.classes = {"a/b", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
            }).find("'a/b' cannot be a folder's name"),
            std::string::npos);
  EXPECT_NE(refused([](Options& o) {
              o.classes = {"1", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
            }).find("two classes have one name"),
            std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.quality = 0; }).find("--quality"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.from += "/missing"; }).find("no such folder"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(to_ / "images"));
  WriteImages(WriteImagesTo::Options("png"));
  EXPECT_NE(refused([](Options&) {}).find("is there already"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::data
