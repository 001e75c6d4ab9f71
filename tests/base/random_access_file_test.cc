#include "base/random_access_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

std::string TextAt(const RandomAccessFile& file, int64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  file.Read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(RandomAccessFile, ReadsAnywhere) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "0123456789");
  const RandomAccessFile file(path);
  EXPECT_EQ(file.bytes(), 10);
  EXPECT_EQ(TextAt(file, 3, 4), "3456");
  EXPECT_EQ(TextAt(file, 0, 10), "0123456789");
  EXPECT_EQ(TextAt(file, 10, 0), "");
  file.WillRead(0, 10);
  file.RequireUnchanged();
  EXPECT_TRUE(IsInput(path));
}

TEST(RandomAccessFile, NamesWhatIsNoFile) {
  const TempFolder folder;
  ExpectUserError([&] { RandomAccessFile(folder / "none"); },
                  {folder / "none", "cannot be opened", "check the path"});
  ExpectUserError([&] { RandomAccessFile(folder.path()); },
                  {folder.path(), "is not a regular file"});
}

TEST(RandomAccessFile, NoticesThatTheFileWasShortened) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "0123456789");
  const RandomAccessFile file(path);
  std::filesystem::resize_file(path, 6);
  EXPECT_EQ(TextAt(file, 2, 4), "2345");
  for (const auto& [offset, bytes] : {std::pair(2, 5), std::pair(6, 1), std::pair(9, 1)}) {
    EXPECT_THAT(UserErrorOf([&] { TextAt(file, offset, static_cast<size_t>(bytes)); }),
                HasSubstr(path + ": was changed while it was read"));
  }
  EXPECT_THAT(UserErrorOf([&] { file.RequireUnchanged(); }), HasSubstr(path));
}

TEST(RandomAccessFile, NoticesThatTheFileWasWritten) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "0123456789");
  const auto before = std::filesystem::last_write_time(path);
  const RandomAccessFile file(path);
  folder.Write("file", "9876543210");  // of the same size
  std::filesystem::last_write_time(path, before + std::chrono::milliseconds(1));
  EXPECT_THAT(UserErrorOf([&] { file.RequireUnchanged(); }), HasSubstr("was changed"));
}

// Whoever replaces a file by renaming changes nothing for those who read the one before.
TEST(RandomAccessFile, ReadsOnInAFileThatWasReplaced) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "0123456789");
  const RandomAccessFile file(path);
  std::filesystem::rename(folder.Write("other", "abc"), path);
  EXPECT_EQ(TextAt(file, 5, 5), "56789");
  file.RequireUnchanged();
}

TEST(RandomAccessFile, IsNoInputUnlessNoted) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "abc");
  EXPECT_EQ(TextAt(RandomAccessFile(path, RandomAccessFile::Noted::kNo), 1, 2), "bc");
  EXPECT_FALSE(IsInput(path));
}

TEST(RandomAccessFile, CanBeMoved) {
  const TempFolder folder;
  std::vector<RandomAccessFile> files;
  for (const char* text : {"first", "second", "third"}) {
    files.emplace_back(folder.Write(text, text));
  }
  files.erase(files.begin());
  EXPECT_EQ(TextAt(files[0], 0, 6), "second");
  EXPECT_EQ(TextAt(files[1], 0, 5), "third");
}

}  // namespace
}  // namespace plimsoll
