#include "base/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

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

// Until all that was written into a pipe has been read.
void AwaitEmpty(const std::string& pipe) {
  const int file = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  int bytes = 1;
  while (ioctl(file, FIONREAD, &bytes) == 0 && bytes > 0) std::this_thread::yield();
  close(file);
}

TEST(ReadInput, APipeIsReadToItsEnd) {
  const TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream file(path);
    file << "one " << std::flush;
    AwaitEmpty(path);
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

// Until files get another time than those made before.
void AwaitTick() {
  const auto now = [] {
    timespec time = {};
    clock_gettime(CLOCK_REALTIME_COARSE, &time);
    return std::pair(time.tv_sec, time.tv_nsec);
  };
  const auto before = now();
  while (now() == before) std::this_thread::yield();
}

TEST(IsInput, AFileInThePlaceOfARemovedOneIsAnother) {
  const TempFolder folder;
  for (int i = 0; i < 10; ++i) {  // many file systems give the same inode again
    const std::string path = folder.Write("a", "1");
    EXPECT_FALSE(IsInput(path));
    ReadInput(path, 10);
    EXPECT_TRUE(IsInput(path));
    std::filesystem::remove(path);
    AwaitTick();
  }
}

}  // namespace
}  // namespace plimsoll
