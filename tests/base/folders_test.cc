#include "base/folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class Folders : public testing::Test {
 protected:
  void Write(const std::string& name) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    folder_.Write(name, "");
  }
  void Link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, folder_ / name);
  }
  // The files below `name`, by their paths from there.
  Names Below(const std::string& name) const {
    Names files;
    ForEachFileBelow(folder_ / name, [&](const std::string& path) {
      files.push_back(path.substr((folder_ / name).size() + 1));
      return true;
    });
    return files;
  }

  const TempFolder folder_;
};

TEST_F(Folders, FollowsLinksToFilesAndToFolders) {
  Write("own/b");
  Write("own/more/c");
  Write("own/.hidden/x");
  Write("own/.x");
  Write("elsewhere/d");
  Link("../elsewhere/d", "own/a");
  Link("../elsewhere", "own/linked");
  EXPECT_EQ(Below("own"), (Names{"a", "b", "linked/d", "more/c"}));
  EXPECT_EQ(NamesIn(folder_ / "own").files, (Names{"a", "b"}));
  EXPECT_EQ(NamesIn(folder_ / "own").folders, (Names{"linked", "more"}));
  Link("own", "root");
  EXPECT_TRUE(IsFolder(folder_ / "root"));
  EXPECT_EQ(Below("root").size(), 4u);
  int visited = 0;
  ForEachFileBelow(folder_ / "own", [&](const std::string&) { return ++visited < 3; });
  EXPECT_EQ(visited, 3);
}

TEST_F(Folders, AFolderMayBeLinkedTwice) {
  Write("elsewhere/d");
  Write("own/x");
  Link("../elsewhere", "own/one");
  Link("../elsewhere", "own/two");
  EXPECT_EQ(Below("own"), (Names{"x", "one/d", "two/d"}));
}

TEST_F(Folders, NamesLinksToNothingAndToWhatHoldsThem) {
  Write("own/sub/x");
  Link("gone", "own/broken");
  ExpectUserError([&] { Below("own"); }, {"/own/broken: is a link to gone", "does not exist"});
  ExpectUserError([&] { IsFolder(folder_ / "own/broken"); }, {"/own/broken", "does not exist"});
  ExpectUserError([&] { IsThere(folder_ / "own/broken"); }, {"/own/broken", "does not exist"});
  fs::remove(fs::path(folder_ / "own/broken"));
  Link("../../own", "own/sub/up");
  ExpectUserError([&] { Below("own"); }, {"/own/sub/up: is a link to ../../own", "hold itself"});
  fs::remove(fs::path(folder_ / "own/sub/up"));
  Link("..", "own/sub/up");
  ExpectUserError([&] { Below("own/sub"); }, {"/own/sub/up: is a link to ..,"});
  fs::remove(fs::path(folder_ / "own/sub/up"));
  Link("itself", "own/itself");
  ExpectUserError([&] { Below("own"); }, {"/own/itself: cannot be read"});
  ExpectUserError([&] { NamesIn(folder_ / "missing"); }, {"/missing: cannot be read"});
  EXPECT_FALSE(IsThere(folder_ / "missing"));
  EXPECT_FALSE(IsFolder(folder_ / "own/sub/x"));
}

}  // namespace
}  // namespace plimsoll
