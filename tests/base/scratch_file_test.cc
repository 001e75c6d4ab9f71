#include "base/scratch_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {
namespace {

class Scratch : public testing::Test {
 protected:
  Scratch() {
    std::filesystem::create_directory(folder_ / "tmp");
    setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
  }
  ~Scratch() override {
    unsetenv("TMPDIR");
    PreferScratchFolder("");
  }

  ScratchFile Make(int64_t wanted_bytes = 0) const {
    return ScratchFile({"a.txt: cannot be kept", "leave it"}, wanted_bytes);
  }

  const TempFolder folder_;
};

TEST_F(Scratch, HoldsBytesWithoutAName) {
  ScratchFile made = Make();
  made.Write(std::as_bytes(std::span("one two")));
  const ScratchFile file = std::move(made);
  EXPECT_EQ(file.bytes(), 8);
  std::array<char, 4> read = {};
  file.Read(4, std::as_writable_bytes(std::span(read)));
  EXPECT_STREQ(read.data(), "two");
  EXPECT_EQ(file.folder(), folder_ / "tmp");
  EXPECT_TRUE(folder_.Names("tmp").empty());
}

TEST_F(Scratch, LiesInThePreferredFolderIfItCan) {
  PreferScratchFolder(folder_ / "runs/one");  // neither is there
  EXPECT_EQ(Make().folder(), folder_.path());
  PreferScratchFolder("no/such/folder");
  EXPECT_EQ(Make().folder(), ".");
  PreferScratchFolder("/proc");
  EXPECT_EQ(Make().folder(), folder_ / "tmp");
  PreferScratchFolder(folder_.path());
  setenv("TMPDIR", (folder_ / "none").c_str(), 1);
  EXPECT_EQ(Make().folder(), folder_.path());
  // Where neither has the room, one is taken all the same: it may be estimated too high.
  EXPECT_EQ(Make(int64_t{1} << 60).folder(), folder_.path());
  PreferScratchFolder("");
  ExpectUserError([&] { Make(); }, {"a.txt: cannot be kept into " + folder_ / "none", "leave it"});
}

TEST_F(Scratch, FullDisksAreNamedWithTheBytes) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  ScratchFile file = Make(5 << 20);
  const std::vector<std::byte> bytes(1 << 20);
  file.Write(bytes);
  ExpectUserError([&] { file.Write(bytes); },
                  {"a.txt: cannot be kept into " + folder_ / "tmp", "File too large",
                   "after 1.00 MiB of about 5.00 MiB", "TMPDIR", "leave it"});
  setrlimit(RLIMIT_FSIZE, &before);
}

}  // namespace
}  // namespace plimsoll
