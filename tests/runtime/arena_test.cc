#include "runtime/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/process_memory.h"
#include "tests/support/expect_error.h"

namespace plimsoll::runtime {
namespace {

TEST(Arena, ExactBytesInWholePages) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  Arena arena(page + 1);
  EXPECT_EQ(arena.bytes(), page + 1);
  EXPECT_EQ(arena.mapped_bytes(), 2 * page);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % page, 0u);
  for (int64_t i = 0; i < arena.bytes(); ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
  std::memset(arena.data(), 1, static_cast<size_t>(arena.bytes()));
}

TEST(Arena, NoBytes) {
  Arena arena(0);
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_EQ(arena.mapped_bytes(), 0);
  EXPECT_THROW(Arena(-1), InternalError);
}

TEST(Arena, RefusalNamesTheBytes) {
  const int64_t bytes = int64_t{1} << 60;
  ExpectUserError([&] { Arena arena(bytes); }, {"1.00 EiB", "1152921504606846976"});
}

TEST(Arena, CanaryNoticesAWriteBehindThePlannedEnd) {
  ArenaOptions options;
  options.canary = true;
  Arena arena(1000, options);
  std::memset(arena.data(), 0xC5, 1000);
  EXPECT_NO_THROW(arena.CheckCanary());
  arena.data()[1003] = std::byte{0};
  ExpectInternalError([&] { arena.CheckCanary(); }, {"1003"});
}

TEST(ArenaDeathTest, GuardPagesStopWritesFarOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ArenaOptions options;
  options.canary = true;
  Arena arena(1000, options);
  volatile std::byte* data = arena.data();
  EXPECT_DEATH(data[-1] = std::byte{1}, "");
  EXPECT_DEATH(data[arena.mapped_bytes()] = std::byte{1}, "");
}

TEST(ProcessMemory, FollowsWhatIsTouched) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const ProcessMemory before = MeasureProcessMemory();
  ProcessMemory touched;
  {
    Arena arena(kBytes);
    EXPECT_LT(MeasureProcessMemory().resident_bytes, before.resident_bytes + kBytes / 2);
    std::memset(arena.data(), 1, kBytes);
    touched = MeasureProcessMemory();
  }
  const ProcessMemory after = MeasureProcessMemory();
  // Leaves room for memory that the test program and sanitizers use.
  EXPECT_GT(touched.resident_bytes, before.resident_bytes + kBytes / 2);
  EXPECT_LT(after.resident_bytes, touched.resident_bytes - kBytes / 2);
  EXPECT_GE(after.peak_resident_bytes, before.resident_bytes + kBytes / 2);
}

TEST(AvailableMemory, IsBetweenNothingAndAllThereIs) {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(AvailableMemory(), 0);
  EXPECT_LE(AvailableMemory(), all);
}

}  // namespace
}  // namespace plimsoll::runtime
