#include "base/output_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    std::string name = ::testing::TempDir() + "plimsoll-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw InternalError("no temporary folder: " + name);
    folder_ = name;
    path_ = (folder_ / "a.txt").string();
  }
  ~OutputFileTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t FileCount() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) count += entry.exists() ? 1 : 0;
    return count;
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(OutputFileTest, NothingIsThereBeforeCommit) {
  OutputFile file(path_);
  file.Write("new");
  EXPECT_FALSE(fs::exists(path_));
  file.Commit();
  EXPECT_EQ(Content(), "new");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(OutputFileTest, WithoutCommitTheOldContentStays) {
  std::ofstream(path_) << "old";
  { OutputFile(path_).Write("new"); }
  EXPECT_EQ(Content(), "old");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(OutputFileTest, PiecesOfAnySizeKeepTheirOrder) {
  std::string expected;
  OutputFile file(path_);
  for (const size_t size : {1u, 1'000'000u, 3u, 48'573u, 3'000'000u, 0u, 1'048'576u, 7u}) {
    std::string piece(size, ' ');
    for (size_t i = 0; i < size; ++i)
      piece[i] = static_cast<char>('a' + (expected.size() + i) % 26);
    file.Write(piece);
    expected += piece;
  }
  file.Commit();
  EXPECT_TRUE(Content() == expected);  // without printing megabytes
}

TEST_F(OutputFileTest, UseAfterCommitIsABug) {
  OutputFile file(path_);
  file.Commit();
  EXPECT_THROW(file.Write("x"), InternalError);
  EXPECT_THROW(file.Commit(), InternalError);
  EXPECT_EQ(Content(), "");
}

TEST_F(OutputFileTest, AFolderInTheWayIsAUserError) {
  fs::create_directory(path_);
  OutputFile file(path_);
  try {
    file.Commit();
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()).rfind(path_ + ": cannot be replaced: ", 0), 0u);
  }
}

}  // namespace
}  // namespace plimsoll
