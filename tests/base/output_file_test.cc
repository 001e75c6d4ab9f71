#include "base/output_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string Content() const { return ReadFile(path_); }
  size_t FileCount() const { return folder_.Names().size(); }

  const TempFolder folder_;
  const std::string path_ = folder_ / "a.txt";
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
  WriteFile(path_, "old");
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
  EXPECT_EQ(UserErrorOf([&] { file.Commit(); }).rfind(path_ + ": cannot be replaced: ", 0), 0u);
}

}  // namespace
}  // namespace plimsoll
