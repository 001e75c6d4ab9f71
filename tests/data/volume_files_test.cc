#include "data/volumes/volume_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using formats::NiftiGrid;

using Lines = std::vector<std::string>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Voxels of 1, 2 and 4 mm. x of the file goes to the left, y to the head, z to the front.
NiftiGrid Grid(int64_t channels = 1) {
  return {
      .size = {2, 3, 2},
      .channels = channels,
      .affine = {{{-1, 0, 0, 10}, {0, 0, 4, 20}, {0, 2, 0, 30}}},
  };
}

// Images 0, 1, 2, … in the order of the file.
std::vector<float> CountUp(const NiftiGrid& grid, float from = 0) {
  std::vector<float> values;
  while (std::ssize(values) < grid.values()) values.push_back(from++);
  return values;
}

class VolumeFilesTest : public ::testing::Test {
 protected:
  template <typename T>
  std::string Write(const std::string& name, const NiftiGrid& grid, const std::vector<T>& values) {
    const std::filesystem::path path(folder_ / name);
    std::filesystem::create_directories(path.parent_path());
    formats::WriteNifti(path, grid, std::span<const T>(values));
    return path;
  }
  std::string Image(const std::string& name, const NiftiGrid& grid = Grid(), float from = 0) {
    return Write(name, grid, CountUp(grid, from));
  }
  std::string Label(const std::string& name, const NiftiGrid& grid = Grid()) {
    std::vector<uint8_t> labels;
    for (const float value : CountUp(grid)) {
      labels.push_back(static_cast<uint8_t>(static_cast<int>(value) % 4));
    }
    return Write(name, grid, labels);
  }
  // An empty file: no file is opened to find it.
  void Touch(const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    folder_.Write(name, "");
  }
  void Touch(std::initializer_list<const char*> names) {
    for (const char* name : names) Touch(std::string(name));
  }
  // "name: image image / label" of each volume.
  Lines LinesOf(const std::vector<VolumeFile>& volumes) {
    const auto below = [&](const std::string& path) { return path.substr(folder_.path().size()); };
    Lines lines;
    for (const VolumeFile& volume : volumes) {
      std::string text = volume.name + ":";
      for (const std::string& image : volume.images) text += " " + below(image);
      if (!volume.label.empty()) text += " / " + below(volume.label);
      lines.push_back(text);
    }
    return lines;
  }
  void ExpectNotFound(std::initializer_list<std::string_view> parts) {
    ExpectUserError([&] { FindVolumes(folder_.path()); }, parts);
  }

  TempFolder folder_;
};

TEST_F(VolumeFilesTest, FindsTheDecathlonsLayout) {
  Touch({"imagesTr/b_2.nii.gz", "imagesTr/a_1.nii", "labelsTr/a_1.nii.gz", "labelsTr/b_2.nii.gz",
         "imagesTs/c_3.nii.gz", "imagesTr/._a_1.nii.gz", "imagesTr/.nii", "labelsTr/._x.nii.gz",
         "imagesTr/notes.txt", "labelsTr/dataset.json"});
  const VolumeFolder found = FindVolumes(folder_.path());
  EXPECT_EQ(LinesOf(found.train), (Lines{"a_1: /imagesTr/a_1.nii / /labelsTr/a_1.nii.gz",
                                         "b_2: /imagesTr/b_2.nii.gz / /labelsTr/b_2.nii.gz"}));
  EXPECT_EQ(LinesOf(found.test), (Lines{"c_3: /imagesTs/c_3.nii.gz"}));
  Touch("labelsTs/c_3.nii.gz");
  EXPECT_EQ(LinesOf(FindVolumes(folder_.path()).test),
            (Lines{"c_3: /imagesTs/c_3.nii.gz / /labelsTs/c_3.nii.gz"}));
}

TEST_F(VolumeFilesTest, TheDatasetListsItsVolumes) {
  Touch({"imagesTr/a.nii", "labelsTr/a.nii", "imagesTr/b.nii", "labelsTr/b.nii", "imagesTs/c.nii"});
  const auto find = [&](const std::string& dataset) {
    WriteFile(folder_ / "dataset.json", dataset);
    return FindVolumes(folder_.path());
  };
  const VolumeFolder found =
      find(R"({"labels": {"background": 0, "ignore": 3}, "test": ["./imagesTs/c.nii.gz"],
               "training": [{"image": "./imagesTr/b.nii.gz", "label": "./labelsTr/b.nii.gz"},
                            {"image": "./imagesTr/a.nii.gz", "label": "./labelsTr/a.nii.gz"}]})");
  EXPECT_EQ(found.train.size(), 2u);
  for (const std::vector<VolumeFile>& part : {found.train, found.test}) {
    for (const VolumeFile& file : part) EXPECT_EQ(file.ignored, 3);
  }
  ExpectUserError(
      [&] { find(R"({"training": ["./imagesTr/a.nii.gz"]})"); },
      {"/dataset.json: training: doesn't list ", "/imagesTr/b.nii", "out of the folder"});
  ExpectUserError([&] { find(R"({"test": ["./imagesTs/d.nii.gz"]})"); },
                  {"/dataset.json: test: doesn't list ", "/imagesTs/c.nii"});
  ExpectUserError([&] { find("{"); }, {"/dataset.json"});
}

TEST_F(VolumeFilesTest, FindsTheLayoutOfNnunet) {
  Touch({"imagesTr/b_0000.nii.gz", "imagesTr/b_0001.nii.gz", "labelsTr/b.nii.gz",
         "imagesTr/a_1_0001.nii.gz", "imagesTr/a_1_0000.nii.gz", "labelsTr/a_1.nii.gz",
         "imagesTs/c_0000.nii", "imagesTs/c_0001.nii"});
  const VolumeFolder found = FindVolumes(folder_.path());
  EXPECT_EQ(
      LinesOf(found.train),
      (Lines{"a_1: /imagesTr/a_1_0000.nii.gz /imagesTr/a_1_0001.nii.gz / /labelsTr/a_1.nii.gz",
             "b: /imagesTr/b_0000.nii.gz /imagesTr/b_0001.nii.gz / /labelsTr/b.nii.gz"}));
  EXPECT_EQ(LinesOf(found.test), (Lines{"c: /imagesTs/c_0000.nii /imagesTs/c_0001.nii"}));
}

// By the volume, as nnU-Net writes them, or by a file of it.
TEST_F(VolumeFilesTest, TheDatasetListsVolumesOrTheirFiles) {
  Touch({"imagesTr/c_000_0000.nii.gz", "labelsTr/c_000.nii.gz"});
  for (const char* const name : {"c_000.nii.gz", "c_000_0000.nii.gz"}) {
    WriteFile(folder_ / "dataset.json",
              R"({"training": [{"image": "./imagesTr/)" + std::string(name) + R"("}]})");
    EXPECT_EQ(FindVolumes(folder_.path()).train.size(), 1u) << name;
  }
  WriteFile(folder_ / "dataset.json", R"({"training": ["./imagesTr/c_001_0000.nii.gz"]})");
  ExpectNotFound({"/dataset.json: training: doesn't list ", "/imagesTr/c_000_0000.nii.gz"});
}

TEST_F(VolumeFilesTest, TestImagesMayBeAlone) {
  Touch({"imagesTs/c_0000.nii", "imagesTs/c_0001.nii"});
  EXPECT_EQ(LinesOf(FindVolumes(folder_.path()).test),
            (Lines{"c: /imagesTs/c_0000.nii /imagesTs/c_0001.nii"}));
  // d_0002 has no channel 0, so that these numbers count volumes.
  Touch("imagesTs/d_0002.nii");
  EXPECT_EQ(LinesOf(FindVolumes(folder_.path()).test),
            (Lines{"c_0000: /imagesTs/c_0000.nii", "c_0001: /imagesTs/c_0001.nii",
                   "d_0002: /imagesTs/d_0002.nii"}));
}

// Numbers of four digits also count volumes of the Decathlon's layout.
TEST_F(VolumeFilesTest, LabelsShowTheLayout) {
  Touch({"imagesTr/a_0000.nii", "imagesTr/a_0001.nii", "labelsTr/a_0000.nii", "labelsTr/a_0001.nii",
         "imagesTs/b_0000.nii"});
  const VolumeFolder found = FindVolumes(folder_.path());
  EXPECT_EQ(LinesOf(found.train), (Lines{"a_0000: /imagesTr/a_0000.nii / /labelsTr/a_0000.nii",
                                         "a_0001: /imagesTr/a_0001.nii / /labelsTr/a_0001.nii"}));
  EXPECT_EQ(LinesOf(found.test), (Lines{"b_0000: /imagesTs/b_0000.nii"}));
}

TEST_F(VolumeFilesTest, FoldersWithoutVolumesAreRefused) {
  ExpectUserError([&] { FindVolumes(folder_ / "no"); }, {"/no: there is no such folder"});
  ExpectNotFound({folder_.path(), "holds no volumes", "imagesTr/NAME_0000.nii.gz"});
  Touch({"imagesTr/.a.nii", "imagesTr/a.hdr", "imagesTr/a.img"});
  ExpectNotFound({"holds no volumes"});
}

TEST_F(VolumeFilesTest, ImagesAndLabelsBelongTogether) {
  Touch({"imagesTr/a.nii", "labelsTr/a.nii", "imagesTr/b.nii"});
  ExpectNotFound({"/imagesTr/b.nii: there is no label for it: ", "/labelsTr/b.nii"});
  Touch({"labelsTr/b.nii.gz", "labelsTr/c.nii.gz"});
  ExpectNotFound({"/labelsTr/c.nii.gz: there is no image for it in ", "/imagesTr"});
  Touch({"imagesTr/c.nii", "imagesTr/c.nii.gz"});
  ExpectNotFound({"/imagesTr/c.nii.gz: there is also ", "/imagesTr/c.nii;"});
}

TEST_F(VolumeFilesTest, TestImagesHaveLabelsAllOrNone) {
  Touch({"imagesTs/a.nii", "imagesTs/b.nii"});
  EXPECT_EQ(FindVolumes(folder_.path()).test.size(), 2u);
  Touch("labelsTs/a.nii");
  ExpectNotFound({"/imagesTs/b.nii: there is no label", "/labelsTs/b.nii"});
}

TEST_F(VolumeFilesTest, EachVolumeHasAllChannels) {
  Touch({"imagesTr/a_0000.nii", "imagesTr/a_0001.nii", "labelsTr/a.nii", "imagesTs/b_0001.nii"});
  ExpectNotFound({"/imagesTs/b_0000: there is no such file", "have 2 channels"});
  Touch({"imagesTs/b_0000.nii", "imagesTs/b_0002.nii"});
  ExpectNotFound({"/imagesTr/a_0002: there is no such file", "have 3 channels"});
  Touch({"imagesTr/a_0002.nii", "imagesTr/other.nii"});
  ExpectNotFound({"/imagesTr/other.nii: ", "named by channels"});
}

TEST_F(VolumeFilesTest, VolumesAreReadInRas) {
  NiftiGrid grid;
  const Volume volume =
      ReadVolume({"a", {Image("a.nii.gz")}, Label("label.nii")}, {.classes = 4}, &grid);
  EXPECT_EQ(volume.name, "a");
  EXPECT_EQ(volume.size, (VolumeSize{3, 2, 2}));
  EXPECT_EQ(volume.channels, 1);
  EXPECT_EQ(volume.spacing, (std::array<double, 3>{2, 4, 1}));
  // A step to the right is x - 1 in the file, to the front z + 1, to the head y + 1.
  EXPECT_EQ(volume.voxels, (std::vector<float>{1, 0, 7, 6, 3, 2, 9, 8, 5, 4, 11, 10}));
  EXPECT_EQ(volume.labels, (std::vector<uint8_t>{1, 0, 3, 2, 3, 2, 1, 0, 1, 0, 3, 2}));
  EXPECT_EQ(grid, Grid());
}

TEST_F(VolumeFilesTest, ChannelsLieInOneFileOrInSeveral) {
  const NiftiGrid two = Grid(2);
  const Volume one = ReadVolume({"a", {Image("a.nii", two)}, ""}, {});
  const Volume several =
      ReadVolume({"a", {Image("a_0000.nii"), Image("a_0001.nii", Grid(), 12)}, ""}, {});
  EXPECT_EQ(one.channels, 2);
  EXPECT_EQ(several.channels, 2);
  EXPECT_EQ(one.voxels, several.voxels);
  EXPECT_EQ(std::vector<float>(one.voxels.begin(), one.voxels.begin() + 6),
            (std::vector<float>{1, 13, 0, 12, 7, 19}));
  EXPECT_TRUE(one.labels.empty());
}

TEST_F(VolumeFilesTest, VolumesAreResampled) {
  const VolumeFile file = {"a", {Image("a.nii")}, Label("label.nii")};
  // 3 · 2 / 1.5 voxels along z, the two along y as they are, 2 · 1 / 4 along x.
  const Volume volume = ReadVolume(file, {.spacing = {1.5, 0, 4}});
  EXPECT_EQ(volume.size, (VolumeSize{4, 2, 1}));
  EXPECT_EQ(volume.spacing, (std::array<double, 3>{1.5, 4, 2}));
  // Along x the mean of two; along z at -1/8 (the border's), 5/8, 11/8, 17/8.
  const std::vector<float> expected = {0.5, 6.5, 1.75, 7.75, 3.25, 9.25, 4.5, 10.5};
  EXPECT_EQ(volume.voxels, expected);
  // Two classes along x have equal shares: the smaller one and the larger one in turn.
  EXPECT_EQ(volume.labels, (std::vector<uint8_t>{0, 3, 3, 0, 2, 1, 1, 2}));

  EXPECT_EQ(ReadVolume(file, {.spacing = {2, 4, 1}, .resample = false}).size,
            (VolumeSize{3, 2, 2}));
  EXPECT_EQ(ReadVolume(file, {.spacing = {2.001, 0, 1}, .resample = false}).spacing[0], 2);
  ExpectUserError(
      [&] {
        ReadVolume(file, {.spacing = {2, 4, 1.01}, .resample = false});
      },
      {"/a.nii: ", "2 × 4 × 1 mm", "2 × 4 × 1.01 are expected", "resample it"});
}

TEST_F(VolumeFilesTest, ThereMustNotBeTooManyVoxels) {
  const VolumeFile file = {"a", {Image("a_0000.nii"), Image("a_0001.nii")}, Label("label.nii")};
  EXPECT_NO_THROW(ReadVolume(file, {.most_voxels = 24}));
  ExpectUserError([&] { ReadVolume(file, {.most_voxels = 23}); },
                  {"/a_0000.nii: ", "2 × 3 × 2 = 12 values", "at most 11"});
  EXPECT_NO_THROW(ReadVolume(file, {.spacing = {1, 0, 0}, .most_voxels = 48}));
  ExpectUserError(
      [&] {
        ReadVolume(file, {.spacing = {1, 0, 0}, .most_voxels = 47});
      },
      {"/a_0000.nii: ", "1 × 4 × 1 mm", "6 × 2 × 2 of them in 2 channels", "at most 47"});
  ExpectUserError(
      [&] {
        ReadVolume(file, {.spacing = {1e-300, 1e-300, 1e-300}});
      },
      {"1048576 × 1048576 × 1048576 of them"});
}

TEST_F(VolumeFilesTest, ImageAndLabelLieAlike) {
  const VolumeFile file = {"a", {Image("a.nii")}, folder_ / "label.nii"};
  const auto read = [&] { ReadVolume(file, {}); };
  NiftiGrid other = Grid();
  other.affine[0][3] += 0.0009;
  Label("label.nii", other);
  EXPECT_NO_THROW(read());
  other.affine[0][3] += 0.0003;
  Label("label.nii", other);
  ExpectUserError(read, {"/label.nii: lies elsewhere than ", "/a.nii: ", "up to 0.0012"});
  other = Grid();
  other.affine[1][2] = -4;
  Label("label.nii", other);
  ExpectUserError(read, {"/label.nii: lies elsewhere", "up to 8;"});
  other = Grid();
  other.size = {2, 2, 3};
  Label("label.nii", other);
  ExpectUserError(read, {"/label.nii: has 2 × 2 × 3 voxels", "/a.nii has 2 × 3 × 2 voxels"});
  Label("label.nii", Grid(2));
  ExpectUserError(read, {"/label.nii: has 2 channels, and labels have one"});

  const VolumeFile channels = {"a", {file.images[0], Image("a_0001.nii", other)}, ""};
  ExpectUserError([&] { ReadVolume(channels, {}); },
                  {"/a_0001.nii: has 2 × 2 × 3 voxels", "/a.nii has"});
}

// What the headers say is compared first: the voxels of these files are missing.
TEST_F(VolumeFilesTest, HeadersAreComparedBeforeVoxelsAreRead) {
  NiftiGrid large = Grid();
  large.size = {32, 32, 32};
  const auto without_voxels = [&](const std::string& name, const NiftiGrid& grid) {
    const std::string whole = Write("whole.nii", grid, std::vector<uint8_t>(grid.values()));
    // So long that a file of gzip could have all voxels.
    return folder_.Write(name, Gzip(ReadFile(whole).substr(0, 352) + std::string(1000, 'x')));
  };
  const std::string image = without_voxels("a.nii.gz", large);
  const std::string other = without_voxels("a_0001.nii.gz", large);
  const VolumeFile file = {"a", {image}, Label("label.nii")};
  ExpectUserError([&] { ReadVolume(file, {}); },
                  {"/label.nii: has 2 × 3 × 2 voxels", "/a.nii.gz has 32 × 32 × 32 voxels"});
  ExpectUserError([&] { ShapeOf(file, {}); }, {"/label.nii: has 2 × 3 × 2 voxels"});
  const VolumeFile labelled = {"a", {Image("b.nii")}, without_voxels("l.nii.gz", large)};
  ExpectUserError([&] { ReadVolume(labelled, {}); }, {"/l.nii.gz: has 32 × 32 × 32 voxels"});
  const VolumeFile channels = {"a", {image, other}, ""};
  EXPECT_EQ(ShapeOf(channels, {}).channels, 2);
  EXPECT_EQ(ShapeOf(channels, {}).size, (VolumeSize{32, 32, 32}));
  const VolumeShape resampled = ShapeOf(channels, {.spacing = {1, 0, 0}});
  EXPECT_EQ(resampled.size, (VolumeSize{64, 32, 32}));
  EXPECT_EQ(resampled.file_size, (VolumeSize{32, 32, 32}));
  ExpectUserError([&] { ReadVolume(channels, {}); }, {"/a.nii.gz: truncated"});
}

TEST_F(VolumeFilesTest, HeldOutVolumesAreNotPassedOver) {
  Touch({"imagesTr/a.nii.gz", "labelsTr/a.nii.gz", "imagesVa/b.nii.gz", "labelsVa/b.nii.gz"});
  ExpectNotFound({"/imagesVa: volumes that are held out lie in imagesTs and labelsTs"});
}

TEST_F(VolumeFilesTest, LinksThatLeadNowhereAreNamed) {
  Touch("imagesTr/a.nii.gz");
  std::filesystem::create_symlink("gone", folder_ / "labelsTr");
  ExpectNotFound({"/labelsTr: is a link to gone", "does not exist"});
}

TEST_F(VolumeFilesTest, LabelsAreClasses) {
  const VolumeFile file = {"a", {Image("a.nii")}, folder_ / "label.nii"};
  std::vector<float> labels(12, 3);
  const auto read = [&](float label, int64_t classes) {
    labels[9] = label;
    Write("label.nii", Grid(), labels);
    return ReadVolume(file, {.classes = classes}).labels;
  };
  EXPECT_EQ(std::ranges::count(read(254, 0), 254), 1);
  EXPECT_NO_THROW(read(3, 4));
  ExpectUserError([&] { read(7, 4); },
                  {"/label.nii: voxel (1,1,1) has label 7, but the model distinguishes 4 classes"});
  ExpectUserError([&] { read(4, 4); }, {"voxel (1,1,1) has label 4", "0 to 3"});
  for (const float label : {-0.5f, 256.0f, 0.5f, 1e30f, kNan}) {
    ExpectUserError([&] { read(label, 0); }, {"voxel (1,1,1) has label ", "whole numbers up to"});
  }
  ExpectUserError([&] { read(255, 4); }, {"voxel (1,1,1) has label 255", "\"ignore\": 255"});
}

TEST_F(VolumeFilesTest, NegativeAndIgnoredLabelsAreNone) {
  VolumeFile file = {"a", {Image("a.nii")}, folder_ / "label.nii"};
  std::vector<float> labels(12, 1);
  labels[3] = -1;
  labels[4] = -7;
  labels[9] = 2;
  labels[11] = 255;
  Write("label.nii", Grid(), labels);
  file.ignored = 255;
  std::vector<uint8_t> read = ReadVolume(file, {.classes = 3}).labels;
  EXPECT_EQ(std::ranges::count(read, kNoLabel), 3);
  EXPECT_EQ(std::ranges::count(read, 2), 1);
  // The label that is ignored may be one that the model has no class for.
  file.ignored = 2;
  labels[11] = 0;
  Write("label.nii", Grid(), labels);
  read = ReadVolume(file, {.classes = 2}).labels;
  EXPECT_EQ(std::ranges::count(read, kNoLabel), 3);
  EXPECT_EQ(std::ranges::count(read, 1), 8);
}

TEST_F(VolumeFilesTest, VoxelsAreFinite) {
  std::vector<float> values = CountUp(Grid(2));
  values[21] = kNan;
  const VolumeFile file = {"a", {Write("a.nii", Grid(2), values)}, ""};
  ExpectUserError(
      [&] { ReadVolume(file, {}); },
      {"/a.nii: 1 voxel is not finite, the first is voxel (1,1,1) of channel 1 with nan"});
  values[2] = -std::numeric_limits<float>::infinity();
  Write("a.nii", Grid(2), values);
  ExpectUserError([&] { ReadVolume(file, {}); },
                  {"2 voxels are not finite", "voxel (0,1,0) of channel 0 with -inf"});
}

TEST_F(VolumeFilesTest, LabelsAreWrittenAsTheImageLies) {
  const VolumeFile file = {"a", {Image("a.nii", Grid(2))}, Label("label.nii")};
  NiftiGrid grid;
  const Volume volume = ReadVolume(file, {}, &grid);
  WriteLabels(folder_ / "out.nii", volume.labels, grid);
  EXPECT_EQ(folder_.Read("out.nii"), folder_.Read("label.nii"));
}

}  // namespace
}  // namespace plimsoll::data
