#include "data/images/image_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/data/image_folders.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

constexpr const char* kFiles[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                  "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

TEST(ImageFiles, OfMnistsFormAreReadPlainAndCompressed) {
  const TempFolder folder;
  WriteIdxFolder(folder, 12, 2);
  for (size_t compressed = 0; compressed <= 4; ++compressed) {
    const ImageFiles files = ReadImageFiles(folder.path());
    EXPECT_EQ(files.classes, 10);
    for (const LabelledImages* part : {&files.train, &files.test}) {
      EXPECT_EQ(part->size, (ImageSize{3, 4, 1}));
      EXPECT_EQ(part->pixels.size(), part->labels.size() * 12);
    }
    EXPECT_EQ(files.train.count(), 12);
    EXPECT_EQ(files.train.labels[11], 1);
    EXPECT_EQ(files.train.image(2)[3], 2 * 12 + 3);
    EXPECT_EQ(files.test.count(), 2);
    EXPECT_EQ(files.test.image(1)[0], 255 - 12);
    if (compressed == 4) break;
    const std::string name = kFiles[compressed];
    folder.Write(name + ".gz", Gzip(folder.Read(name)));
    std::filesystem::remove(folder / name);
  }
}

TEST(ImageFiles, OfCifarHaveTheirPlanesInterleaved) {
  for (const std::string below : {"", "cifar-10-batches-bin/"}) {
    const TempFolder folder;
    std::filesystem::create_directories(folder / below);
    WriteCifarFolder(folder, below);
    const ImageFiles files = ReadImageFiles(folder.path());
    EXPECT_EQ(files.classes, 10);
    EXPECT_EQ(files.train.size, (ImageSize{32, 32, 3}));
    ASSERT_EQ(files.train.count(), 10);
    EXPECT_EQ(files.test.count(), 1);
    EXPECT_EQ(files.test.labels[0], 7);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(files.train.labels[static_cast<size_t>(i)], i);
      const auto image = files.train.image(i);
      for (int pixel = 0; pixel < kCifarPlane; ++pixel) {
        const uint8_t* const rgb = &image[static_cast<size_t>(3 * pixel)];
        ASSERT_EQ(rgb[0], static_cast<uint8_t>(i + pixel));
        ASSERT_EQ(rgb[1], static_cast<uint8_t>(50 + i + pixel));
        ASSERT_EQ(rgb[2], static_cast<uint8_t>(100 + i + pixel));
      }
    }
  }
}

TEST(ImageFiles, ThatAreNotThereAreNamed) {
  const TempFolder folder;
  const auto read = [&] { ReadImageFiles(folder.path()); };
  ExpectUserError([&] { ReadImageFiles(folder / "nowhere"); }, {"nowhere: ", "no such folder"});
  ExpectUserError([] { ReadImageFiles(""); }, {"no such folder"});
  ExpectUserError(
      read, {folder.path() + ": holds no images", "train-images-idx3-ubyte",
             "t10k-labels-idx1-ubyte", ".gz", "data_batch_5.bin", "test_batch.bin",
             "cifar-10-batches-bin", "dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist"});
  WriteIdxFolder(folder, 3, 3);
  for (const std::string name : kFiles) {
    const std::string content = folder.Read(name);
    std::filesystem::remove(folder / name);
    ExpectUserError(read, {folder / name + ": ", "this file of the data set is missing"});
    folder.Write(name, content);
  }
  folder.Write("test_batch.bin", "");
  ExpectUserError(read, {folder.path() + ": ", "one of them"});

  const TempFolder cifar;
  WriteCifarFolder(cifar);
  std::filesystem::remove(cifar / "data_batch_3.bin");
  ExpectUserError([&] { ReadImageFiles(cifar.path()); }, {"data_batch_3.bin: ", "this file of the data set is missing"});
}

TEST(ImageFiles, ThatDoNotFitEachOtherAreRefused) {
  const TempFolder folder;
  const auto with = [&](const std::string& name, const std::string& content,
                        std::initializer_list<std::string_view> parts) {
    WriteIdxFolder(folder, 12, 2);
    folder.Write(name, content);
    ExpectUserError([&] { ReadImageFiles(folder.path()); }, parts);
  };
  with("train-labels-idx1-ubyte", IdxLabels(11),
       {"train-labels-idx1-ubyte: ", "11 labels for the 12 images", "train-images-idx3-ubyte"});
  with("t10k-labels-idx1-ubyte", IdxLabels(3), {"t10k-labels", "3 labels for the 2 images"});
  with("t10k-labels-idx1-ubyte", Idx({2}, {9, 10}),
       {"t10k-labels-idx1-ubyte: label 10 of image 1", "10 classes 0 to 9"});
  with("t10k-images-idx3-ubyte", IdxImages(2, 4, 3), {folder.path(), "3 × 4 pixels", "4 × 3"});
  with("t10k-images-idx3-ubyte", IdxImages(2, 3, 4).substr(0, 30),
       {folder / "t10k-images-idx3-ubyte: truncated"});
  with("train-images-idx3-ubyte", IdxLabels(12), {"train-images-idx3-ubyte: has 1 dimension"});
}

TEST(ImageFiles, OfCifarAreChecked) {
  const TempFolder folder;
  const auto with = [&](const std::string& name, const std::string& content,
                        std::initializer_list<std::string_view> parts) {
    WriteCifarFolder(folder);
    folder.Write(name, content);
    ExpectUserError([&] { ReadImageFiles(folder.path()); }, parts);
  };
  const std::string record = CifarRecord(0, 0, 0, 0);
  with("data_batch_2.bin", record.substr(1), {"data_batch_2.bin: truncated", "3072", "3073"});
  with("test_batch.bin", "", {"test_batch.bin: truncated", "0 bytes"});
  with("data_batch_4.bin", record + CifarRecord(10, 0, 0, 0),
       {"data_batch_4.bin: label 10 of image 1", "0 to 9"});
}

}  // namespace
}  // namespace plimsoll::data
