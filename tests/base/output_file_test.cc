#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/input_file.h"
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

TEST_F(OutputFileTest, LinksStayAndLeadToTheNewContent) {
  WriteFile(path_, "old");
  chmod(path_.c_str(), 0640);
  fs::create_directory(folder_ / "below");
  for (const std::string link : {"near", "below/far", "again", "nowhere"}) {
    const std::string name = folder_ / link;
    fs::create_symlink(link == "near"        ? "a.txt"
                       : link == "below/far" ? "../a.txt"
                       : link == "again"     ? folder_ / "near"
                                             : "b.txt",
                       name);
    OutputFile file(name);
    file.Write(link);
    file.Commit();
    EXPECT_TRUE(fs::is_symlink(name));
    EXPECT_EQ(ReadFile(name), link);
  }
  EXPECT_EQ(Content(), "again");
  EXPECT_EQ(folder_.Read("b.txt"), "nowhere");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms{0640});
}

TEST_F(OutputFileTest, WhatIsNoFileIsWrittenTo) {
  OutputFile null("/dev/null");
  null.Write("x");
  null.Commit();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = Content(); });
  OutputFile pipe(path_);
  pipe.Write("through a pipe");
  pipe.Commit();
  reader.join();
  EXPECT_EQ(read, "through a pipe");
  EXPECT_TRUE(fs::is_fifo(path_));

  OutputFile full("/dev/full");
  full.Write("x");
  EXPECT_EQ(UserErrorOf([&] { full.Commit(); }).rfind("/dev/full: cannot be written: ", 0), 0u);
}

TEST_F(OutputFileTest, DescriptorsGoOnWhereTheyAre) {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(file, "first ", 6), 6);
  fs::create_symlink("/dev/fd/" + std::to_string(file), folder_ / "link");
  for (const std::string& name : {"/dev/fd/" + std::to_string(file), folder_ / "link"}) {
    OutputFile output(name);
    output.Write("more ");
    output.Commit();
  }
  close(file);
  EXPECT_EQ(Content(), "first more more ");
}

TEST_F(OutputFileTest, NoInputIsWrittenOver) {
  WriteFile(path_, "input");
  fs::create_symlink("a.txt", folder_ / "link");
  ReadInput(path_, 100);
  EXPECT_EQ(
      UserErrorOf([&] { WriteOutput(folder_ / "link", "--html", "new"); }),
      "--html: " + (folder_ / "link") + " is one of the files that are read; name another one");
  EXPECT_EQ(Content(), "input");
  WriteOutput(folder_ / "other", "--html", "new");
  EXPECT_EQ(folder_.Read("other"), "new");
}

}  // namespace
}  // namespace plimsoll
