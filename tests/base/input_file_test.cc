#include "base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {
namespace {

TEST(ReadInput, AtMostSoManyBytes) {
  const TempFolder folder;
  const std::string path = folder.Write("a", "abcdef");
  EXPECT_EQ(ReadInput(path, 100), "abcdef");
  EXPECT_EQ(ReadInput(path, 3), "abc");
  EXPECT_EQ(ReadInput("/dev/null", 3), "");
  EXPECT_EQ(ReadInput("/dev/zero", 3), std::string(3, '\0'));
}

TEST(ReadInput, APipeIsReadToItsEnd) {
  const TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream file(path);
    file << "one " << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    file << "two";
  });
  EXPECT_EQ(ReadInput(path, 100), "one two");
  writer.join();
}

TEST(ReadInput, AWriterMayHaveNothingToSay) {
  const TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream file(path); });
  EXPECT_EQ(ReadInput(path, 100), "");
  writer.join();
}

TEST(ReadInput, MistakesAreNamed) {
  const TempFolder folder;
  ExpectUserError([&] { ReadInput(folder / "none", 1); }, {folder / "none", "no such file"});
  ExpectUserError([&] { ReadInput(folder.path(), 1); }, {"is a folder"});
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectUserError([&] { ReadInput(pipe, 1, std::chrono::milliseconds(100)); },
                  {pipe, "a pipe that nothing writes to"});
}

TEST(IsInput, KnowsAFileByAnyName) {
  const TempFolder folder;
  const std::string path = folder.Write("a", "1"), other = folder.Write("b", "2");
  std::filesystem::create_symlink("a", folder / "link");
  std::filesystem::create_hard_link(path, folder / "hard");
  EXPECT_FALSE(IsInput(path));
  ReadInput(folder / "link", 10);
  for (const char* name : {"a", "link", "hard", "./a"}) EXPECT_TRUE(IsInput(folder / name)) << name;
  EXPECT_FALSE(IsInput(other));
  EXPECT_FALSE(IsInput(folder / "none"));
  ReadInput("/dev/null", 10);
  EXPECT_FALSE(IsInput("/dev/null"));
}

TEST(IsInput, AFileInThePlaceOfARemovedOneIsAnother) {
  const TempFolder folder;
  for (int i = 0; i < 10; ++i) {  // many file systems give the same inode again
    const std::string path = folder.Write("a", "1");
    EXPECT_FALSE(IsInput(path));
    ReadInput(path, 10);
    EXPECT_TRUE(IsInput(path));
    std::filesystem::remove(path);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // their clock may tick that slowly
  }
}

}  // namespace
}  // namespace plimsoll
