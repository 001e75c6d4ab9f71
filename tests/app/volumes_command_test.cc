// `plimsoll data volumes`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/data_commands.h"
#include "data/volumes/volume_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

WriteVolumesOptions Options(const std::string& folder) {
  return {.folder = folder,
          .train = 3,
          .test = 2,
          .volume = {.size = {6, 8, 10}, .channels = 2, .classes = 3},
          .seed = 4};
}

TEST(WriteVolumes, WritesWhatIsReadBack) {
  const TempFolder folder;
  const WriteVolumesOptions options = Options(folder.path());
  WriteVolumes(options);
  const VolumeFolder found = FindVolumes(folder.path());
  ASSERT_EQ(found.train.size(), 3u);
  ASSERT_EQ(found.test.size(), 2u);
  for (int64_t number = 0; number < 5; ++number) {
    const VolumeFile& file = number < 3 ? found.train[static_cast<size_t>(number)]
                                        : found.test[static_cast<size_t>(number - 3)];
    const Volume read = ReadVolume(file, {});
    const Volume made = MakeSyntheticVolume(options.volume, options.seed, number);
    EXPECT_EQ(read.name, made.name);
    EXPECT_EQ(read.size, made.size);
    EXPECT_EQ(read.channels, 2);
    EXPECT_EQ(read.spacing, made.spacing);
    EXPECT_EQ(read.labels, made.labels);
    ASSERT_EQ(read.voxels.size(), made.voxels.size());
    for (size_t i = 0; i < read.voxels.size(); ++i) {
      ASSERT_EQ(read.voxels[i], std::round(made.voxels[i] * 1000)) << i;
    }
  }
}

TEST(WriteVolumes, ListsThemInTheDecathlonsForm) {
  const TempFolder folder;
  WriteVolumes(Options(folder.path()));
  std::ifstream file(fs::path(folder.path()) / "dataset.json");
  const auto set = nlohmann::json::parse(file);
  EXPECT_EQ(set["numTraining"], 3);
  EXPECT_EQ(set["numTest"], 2);
  EXPECT_EQ(set["labels"]["2"], "box 1");
  EXPECT_EQ(set["modality"].size(), 2u);
  ASSERT_EQ(set["training"].size(), 3u);
  ASSERT_EQ(set["test"].size(), 2u);
  for (const char* part : {"training", "test"}) {
    for (const auto& entry : set[part]) {
      for (const char* kind : {"image", "label"}) {
        EXPECT_TRUE(fs::exists(fs::path(folder.path()) / entry[kind].get<std::string>()));
      }
    }
  }
}

TEST(WriteVolumes, RefusesWhatCannotBe) {
  const TempFolder folder;
  const auto refusal = [&](auto change) {
    WriteVolumesOptions options = Options(folder.path());
    change(options);
    return UserErrorOf([&] { WriteVolumes(options); });
  };
  EXPECT_THAT(refusal([](auto& o) { o.volume.size.height = 0; }), HasSubstr("--size 0"));
  EXPECT_THAT(refusal([](auto& o) { o.volume.size.width = 2000; }), HasSubstr("--size 2000"));
  EXPECT_THAT(refusal([](auto& o) { o.volume.classes = 1; }), HasSubstr("--classes 1"));
  EXPECT_THAT(refusal([](auto& o) { o.volume.classes = 257; }), HasSubstr("--classes 257"));
  EXPECT_THAT(refusal([](auto& o) { o.train = 0; }), HasSubstr("--train 0"));
  EXPECT_THAT(refusal([](auto& o) { o.test = 10'000; }), HasSubstr("--test 10000"));
  fs::create_directory(fs::path(folder.path()) / "labelsTs");
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("labelsTs: is there already"));
  EXPECT_FALSE(fs::exists(fs::path(folder.path()) / "imagesTr"));
  fs::remove(fs::path(folder.path()) / "labelsTs");
  std::ofstream(fs::path(folder.path()) / "file").put('x');
  EXPECT_THAT(refusal([](auto& o) { o.folder += "/file"; }), HasSubstr("cannot be made"));
}

}  // namespace
}  // namespace plimsoll::data
