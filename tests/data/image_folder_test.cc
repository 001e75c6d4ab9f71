#include "data/images/image_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

// Files that nobody opens.
class ImageFolders : public testing::Test {
 protected:
  void Write(const std::string& name) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    folder_.Write(name, "");
  }
  ImageFolder Find(double eval_fraction = 0) const {
    return FindImages(folder_.path(), eval_fraction);
  }
  // "CLASS NAME" of each.
  std::vector<std::string> Named(const std::vector<ImageFile>& files) const {
    std::vector<std::string> names;
    for (const ImageFile& file : files) {
      names.push_back(std::to_string(file.label) + " " +
                      file.path.substr(folder_.path().size() + 1));
    }
    return names;
  }

  const TempFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(ImageFolders, ListsTheClassesInTheOrderOfTheirNames) {
  for (const char* name : {"train/b/2.jpg", "train/b/1.JPEG", "train/a/more/x.png", "train/a/9.jpg",
                           "train/C/z.Jpg", "val/a/5.png", "val/b/6.jpeg"}) {
    Write(name);
  }
  for (const char* name : {"train/a/notes.txt", "train/b/q.webp", "train/.git/h.jpg",
                           "train/a/.hidden.jpg", "train/README.png"}) {
    Write(name);
  }
  EXPECT_TRUE(IsImageFolder(folder_.path()));
  EXPECT_TRUE(HasHeldOutImages(folder_.path()));
  const ImageFolder found = Find();
  EXPECT_EQ(found.classes, (Names{"C", "a", "b"}));
  EXPECT_EQ(Named(found.train), (Names{"0 train/C/z.Jpg", "1 train/a/9.jpg", "1 train/a/more/x.png",
                                       "2 train/b/1.JPEG", "2 train/b/2.jpg"}));
  Names held_out = Named(found.held_out);
  std::ranges::sort(held_out);
  EXPECT_EQ(held_out, (Names{"1 val/a/5.png", "2 val/b/6.jpeg"}));
  EXPECT_EQ(found.passed_over, 2);
  ExpectUserError([&] { Find(0.5); }, {"/val: its images are held out already"});
}

TEST_F(ImageFolders, HoldsOutAPartOfEachClass) {
  std::map<std::string, int> sizes = {{"a", 40}, {"b", 10}, {"c", 1}};
  for (const auto& [name, count] : sizes) {
    for (int i = 0; i < count; ++i) Write(name + "/" + std::to_string(i) + ".png");
  }
  EXPECT_TRUE(IsImageFolder(folder_.path()));
  EXPECT_FALSE(HasHeldOutImages(folder_.path()));
  EXPECT_EQ(Find().train.size(), 51u);
  EXPECT_TRUE(Find().held_out.empty());
  const ImageFolder found = Find(0.2);
  std::map<int32_t, int> train, held_out;
  std::set<std::string> all;
  for (const ImageFile& file : found.train) ++train[file.label], all.insert(file.path);
  for (const ImageFile& file : found.held_out) ++held_out[file.label], all.insert(file.path);
  EXPECT_EQ(train, (std::map<int32_t, int>{{0, 32}, {1, 8}, {2, 1}}));
  EXPECT_EQ(held_out, (std::map<int32_t, int>{{0, 8}, {1, 2}}));
  EXPECT_EQ(all.size(), 51u);
  EXPECT_EQ(Named(Find(0.2).held_out), Named(found.held_out));
  // The first ones are not all of one class.
  std::set<int32_t> first;
  for (const ImageFile& file : Find(0.5).held_out) {
    if (std::ssize(first) < 2) first.insert(file.label);
  }
  EXPECT_EQ(first.size(), 2u);
  ExpectUserError([&] { Find(0.001); }, {"holds out none", "51 images in 3 classes"});
}

TEST_F(ImageFolders, TestIsHeldOutWhereThereIsNoVal) {
  Write("train/a/1.png");
  EXPECT_FALSE(HasHeldOutImages(folder_.path()));
  Write("test/a/2.png");
  EXPECT_TRUE(HasHeldOutImages(folder_.path()));
  EXPECT_EQ(Named(Find().held_out), Names{"0 test/a/2.png"});
}

TEST_F(ImageFolders, OtherNamesOfValMeanTheSame) {
  Write("train/a/1.png");
  Write("test/a/3.png");
  for (const std::string name : {"val", "valid", "validation", "dev"}) {
    Write(name + "/a/2.png");
    EXPECT_TRUE(HasHeldOutImages(folder_.path()));
    EXPECT_EQ(Named(Find().held_out), Names{"0 " + name + "/a/2.png"});
    fs::remove_all(fs::path(folder_ / name));
  }
  Write("val/a/2.png");
  Write("dev/a/2.png");
  EXPECT_TRUE(HasHeldOutImages(folder_.path()));
  ExpectUserError([&] { Find(); }, {"/dev: there is also", "/val", "keep one"});
}

TEST_F(ImageFolders, WhatIsHeldOutIsNoClass) {
  for (const std::string name : {"val", "valid", "validation", "dev", "test"}) {
    Write("cat/1.png");
    Write(name + "/cat/2.png");
    EXPECT_TRUE(IsImageFolder(folder_.path()));
    EXPECT_FALSE(HasHeldOutImages(folder_.path()));
    ExpectUserError([&] { Find(); }, {"/" + name + ": is called as", "there is no", "/train"});
    fs::remove_all(fs::path(folder_ / name));
  }
}

TEST_F(ImageFolders, SaysThatClassesAreFolders) {
  Write("1.jpg");
  EXPECT_TRUE(IsImageFolder(folder_.path()));
  ExpectUserError([&] { Find(); }, {": holds images, but no folders of classes",
                                    "one sub-folder of its name", "/metadata.jsonl"});
  ExpectUserError(
      [&] { FindImages(folder_.path(), 0, /*has_classes=*/false); },
      {": holds images, but no folder of them", "into one sub-folder", "/all/NAME.jpg"});
  Write("train/2.jpg");
  ExpectUserError([&] { Find(); }, {"/train: holds images, but no folders of classes"});
}

TEST_F(ImageFolders, FollowLinks) {
  Write("elsewhere/cats/more/2.png");
  Write("elsewhere/3.png");
  Write("data/train/dog/1.png");
  fs::create_symlink("../../elsewhere/cats", folder_ / "data/train/cat");
  fs::create_symlink("../../../elsewhere/3.png", folder_ / "data/train/dog/4.png");
  fs::create_symlink("../../../elsewhere/cats", folder_ / "data/train/dog/5");
  fs::create_symlink("train", folder_ / "data/val");
  const ImageFolder found = FindImages(folder_ / "data", 0);
  const Names train = {"0 data/train/cat/more/2.png", "1 data/train/dog/1.png",
                       "1 data/train/dog/4.png", "1 data/train/dog/5/more/2.png"};
  EXPECT_EQ(Named(found.train), train);
  EXPECT_EQ(found.held_out.size(), 4u);
}

TEST_F(ImageFolders, NameLinksThatLeadNowhere) {
  const auto expect = [&](const std::string& target, const std::string& link,
                          std::initializer_list<std::string_view> parts) {
    fs::create_symlink(target, folder_ / link);
    EXPECT_TRUE(IsImageFolder(folder_.path()));
    ExpectUserError([&] { Find(); }, parts);
    fs::remove(fs::path(folder_ / link));
  };
  Write("train/a/1.png");
  expect("gone.png", "train/a/2.png", {"/train/a/2.png: is a link to gone.png", "not exist"});
  expect("gone", "train/b", {"/train/b: is a link to gone"});
  expect("gone", "val", {"/val: is a link to gone"});
  expect("..", "train/a/up", {"/train/a/up: is a link to ..", "hold itself"});
}

TEST_F(ImageFolders, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(IsImageFolder(folder_.path()));
  EXPECT_FALSE(IsImageFolder(folder_ / "missing"));
  ExpectUserError([&] { Find(); }, {"holds no folders"});
  Write("train/a/1.png");
  fs::create_directories(folder_ / "val");
  ExpectUserError([&] { Find(); }, {"/val: holds no folders"});
  Write("val/b/1.png");
  ExpectUserError([&] { Find(); }, {"/val/b: unknown class", "/train has no folder 'b'"});
  fs::create_directories(folder_ / "train/b");
  ExpectUserError([&] { Find(); }, {"/train/b: holds no images"});
}

class ListedImages : public ImageFolders {
 protected:
  // Files 0.png, 1.png, … in a part, and a line of metadata.jsonl with each of these labels.
  void List(const std::string& part, const std::vector<std::string>& labels) const {
    std::string lines;
    for (size_t i = 0; i < labels.size(); ++i) {
      const std::string name = std::to_string(i) + ".png";
      Write(part + name);
      lines += "{\"file_name\": \"" + name + "\", \"label\": " + labels[i] + "}\n";
    }
    folder_.Write(part + "metadata.jsonl", lines);
  }
  ImageFolder FindListed(LabelKind kind, int64_t classes, double eval_fraction = 0,
                         const Names& names = {}) const {
    return FindListedImages(folder_.path(), eval_fraction, kind, names, classes);
  }
  // The label values of each file, by its name.
  std::map<std::string, std::vector<float>> Values(const ImageFolder& found,
                                                   const std::vector<ImageFile>& files,
                                                   size_t each) const {
    std::map<std::string, std::vector<float>> values;
    for (const ImageFile& file : files) {
      std::vector<float>& row = values[file.path.substr(folder_.path().size() + 1)];
      row.resize(each);
      found.labels.FillValues(file.label, row);
    }
    return values;
  }
};

using LabelsOfFiles = std::map<std::string, std::vector<float>>;

TEST_F(ListedImages, HaveSeveralLabels) {
  List("train/", {R"(["cat", "dog"])", R"("dog")", "[]"});
  List("val/", {R"(["cat"])"});
  EXPECT_TRUE(HasListedImages(folder_.path()));
  EXPECT_TRUE(HasHeldOutImages(folder_.path()));
  const ImageFolder found = FindListed(LabelKind::kClasses, 2);
  EXPECT_EQ(found.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(
      Values(found, found.train, 2),
      (LabelsOfFiles{{"train/0.png", {1, 1}}, {"train/1.png", {0, 1}}, {"train/2.png", {0, 0}}}));
  EXPECT_EQ(Values(found, found.held_out, 2), (LabelsOfFiles{{"val/0.png", {1, 0}}}));
  const ImageFolder named = FindListed(LabelKind::kClasses, 2, 0, {"dog", "cat"});
  EXPECT_EQ(Values(named, named.held_out, 2), (LabelsOfFiles{{"val/0.png", {0, 1}}}));
}

TEST_F(ListedImages, HaveNumbersAndHoldOutAShareOfAll) {
  List("", {"0.5", "1", "2", "3", "4", "5", "6", "7", "8", "-9"});
  const ImageFolder found = FindListed(LabelKind::kNumber, 1, 0.2);
  EXPECT_EQ(found.classes, Names());
  EXPECT_EQ(found.train.size(), 8u);
  EXPECT_EQ(found.held_out.size(), 2u);
  LabelsOfFiles values = Values(found, found.train, 1);
  values.merge(Values(found, found.held_out, 1));
  EXPECT_EQ(values.size(), 10u);
  EXPECT_EQ(values.at("0.png"), std::vector<float>{0.5});
  EXPECT_EQ(values.at("9.png"), std::vector<float>{-9});
}

// Also where folders below would pass for classes.
TEST_F(ListedImages, HaveOneLabel) {
  List("train/", {R"("dog")", R"("cat")", R"("dog")"});
  List("train/sub/", {R"("x")"});
  fs::remove(fs::path(folder_ / "train/sub/metadata.jsonl"));
  EXPECT_TRUE(HasListedLabels(folder_.path()));
  ImageFolder found = FindListed(LabelKind::kClass, 2);
  EXPECT_EQ(found.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(Named(found.train), (Names{"0 train/1.png", "1 train/0.png", "1 train/2.png"}));
  EXPECT_EQ(found.labels.count(), 0);
  List("val/", {R"("cat")"});
  EXPECT_EQ(Named(FindListed(LabelKind::kClass, 2, 0, {"dog", "cat"}).held_out),
            Names{"1 val/0.png"});
  // Numbers, and a part of each class.
  fs::remove_all(fs::path(folder_ / "val"));
  List("train/", {"2", "0", "0", "2", "2", "0", "2", "0"});
  found = FindListed(LabelKind::kClass, 3, 0.25);
  EXPECT_EQ(found.classes, (Names{"0", "1", "2"}));
  std::multiset<int32_t> held_out;
  for (const ImageFile& file : found.held_out) held_out.insert(file.label);
  EXPECT_EQ(held_out, (std::multiset<int32_t>{0, 2}));
  ExpectUserError([&] { FindListed(LabelKind::kClass, 2); },
                  {"train/metadata.jsonl:1", "model.classes to 3"});
}

TEST_F(ListedImages, AListMayHaveNoLabels) {
  Write("train/a/1.png");
  folder_.Write("train/metadata.jsonl", R"({"file_name": "a/1.png", "caption": "a cat"})");
  EXPECT_FALSE(HasListedLabels(folder_.path()));
  List("val/", {R"("cat")"});
  EXPECT_TRUE(HasListedLabels(folder_.path()));
  ExpectUserError([&] { FindListed(LabelKind::kClass, 2); }, {"train/metadata.jsonl:1", "label"});
  fs::remove(fs::path(folder_ / "train/metadata.jsonl"));
  ExpectUserError([&] { FindListed(LabelKind::kClass, 2); }, {"train/metadata.jsonl: is missing"});
  folder_.Write("metadata.jsonl", R"({"file_name": "train/a/1.png", "label": "cat"})");
  ExpectUserError([&] { HasListedLabels(folder_.path()); },
                  {"/metadata.jsonl: gives labels", "/train/metadata.jsonl"});
}

TEST_F(ListedImages, NameTheLineOfAMistake) {
  const auto expect = [&](const std::string& line, std::initializer_list<std::string_view> parts) {
    folder_.Write("train/metadata.jsonl", line);
    ExpectUserError([&] { FindListed(LabelKind::kClasses, 2); }, parts);
  };
  List("train/", {"[\"a\"]"});
  expect(R"({"file_name": "9.png", "label": ["a"]})",
         {"train/metadata.jsonl:1", "file_name", "train/9.png does not exist"});
  expect(R"({"file_name": "0.gif", "label": ["a"]})",
         {"file_name", "neither .jpg, .jpeg nor .png"});
  expect(R"({"label": ["a"]})", {"train/metadata.jsonl:1", "file_name"});
  expect(R"({"file_name": "0.png"})", {"train/metadata.jsonl:1", "label", "missing"});
  expect(R"({"file_name": "0.png", "label": [5]})", {"metadata.jsonl:1", "model.classes to 6"});
  expect("\n", {"train/metadata.jsonl", "is empty"});
  folder_.Write("train/metadata.jsonl", R"({"file_name": "0.png", "label": ["a"]})");
  ExpectUserError([&] { FindListed(LabelKind::kClasses, 2, 0.5); },
                  {"data.eval_fraction: 0.5 of 1 image holds out none"});
  List("test/", {"[\"z\"]"});
  ExpectUserError([&] { FindListed(LabelKind::kClasses, 2); },
                  {"test/metadata.jsonl:1", "'z'", "data.class_names or the images to train on"});
  ExpectUserError([&] { FindListed(LabelKind::kClasses, 2, 0.5); }, {"held out already"});
}

TEST_F(ListedImages, WhatIsHeldOutStandsBesideTrain) {
  List("", {R"("a")", R"("b")"});
  Write("dev/9.png");
  EXPECT_EQ(FindListed(LabelKind::kClass, 2).train.size(), 2u);
  List("dev/", {R"("a")"});
  ExpectUserError([&] { FindListed(LabelKind::kClass, 2); }, {"/dev: is called as"});
}

}  // namespace
}  // namespace plimsoll::data
