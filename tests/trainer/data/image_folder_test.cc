#include "trainer/data/image_folder.h"

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

}  // namespace
}  // namespace plimsoll::data
