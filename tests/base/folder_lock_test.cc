#include "base/folder_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {
namespace {

TEST(FolderLock, IsHeldByOneAndLeavesNothing) {
  const TempFolder folder;
  auto lock = std::make_unique<FolderLock>(folder.path(), "writes there");
  // Another descriptor is another holder, even within one process.
  ExpectUserError(
      [&] { FolderLock(folder.path(), "writes there"); },
      {folder.path() + ": process " + std::to_string(getpid()) + " on host ", " writes there"});
  lock.reset();
  EXPECT_TRUE(folder.Names().empty());
  FolderLock(folder.path(), "writes there");
  ExpectUserError([&] { FolderLock(folder / "none", ""); }, {"none", "cannot be made"});
}

TEST(FolderLock, EndsWithAProcessThatIsKilled) {
  const TempFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder.path(), "writes there");
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ExpectUserError([&] { FolderLock(folder.path(), ""); },
                  {"process " + std::to_string(child) + " on host "});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(folder.Names().size(), 1u);
  FolderLock(folder.path(), "");
  EXPECT_TRUE(folder.Names().empty());
}

TEST(LockHolder, NamesWhoHoldsIt) {
  const TempFolder folder;
  EXPECT_FALSE(LockHolder(folder.path()));
  {
    const FolderLock lock(folder.path(), "writes there");
    EXPECT_TRUE(LockHolder(folder.path())->starts_with("process " + std::to_string(getpid())));
  }
  EXPECT_FALSE(LockHolder(folder.path()));
  folder.Write(".lock", "process 1 on host gone");  // as a killed process leaves it
  EXPECT_FALSE(LockHolder(folder.path()));
}

}  // namespace
}  // namespace plimsoll
