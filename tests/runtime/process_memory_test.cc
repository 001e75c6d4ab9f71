// What is left of a machine's memory and of limits of control groups, from files made up for it.
#include "runtime/process_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kMiB = 1 << 20;

class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest() { Put("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    102400 kB\n"); }

  void Put(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_.path() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void Group(const std::string& folder, const std::string& limit, int64_t used) {
    Put(folder + "/memory.max", limit + "\n");
    Put(folder + "/memory.current", std::to_string(used) + "\n");
    Put(folder + "/memory.stat", "anon 5\nfile 2097152\nkernel 3\nshmem 1048576\n");
  }
  AvailableMemoryBytes Measure() { return MeasureAvailableMemory(root_.path().c_str()); }

  TempFolder root_;
};

TEST_F(AvailableMemoryTest, IsTheMachinesWithoutAGroup) {
  EXPECT_EQ(Measure().machine, 100 * kMiB);
  EXPECT_EQ(Measure().group, AvailableMemoryBytes::kNoLimit);
  EXPECT_EQ(Measure().least(), 100 * kMiB);
  Put("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(Measure().group, AvailableMemoryBytes::kNoLimit);
}

// Pages of files can be dropped, but for those of shared memory.
TEST_F(AvailableMemoryTest, IsBoundedByAContainer) {
  Put("/proc/self/cgroup", "0::/\n");
  Group("/sys/fs/cgroup", std::to_string(50 * kMiB), 20 * kMiB);
  EXPECT_EQ(Measure().group, 31 * kMiB);
  EXPECT_EQ(Measure().least(), 31 * kMiB);
  // The group's own folder is out of sight.
  Put("/proc/self/cgroup", "0::/docker/abc");
  EXPECT_EQ(Measure().group, 31 * kMiB);
  Group("/sys/fs/cgroup", "max", 20 * kMiB);
  EXPECT_EQ(Measure().group, AvailableMemoryBytes::kNoLimit);
}

TEST_F(AvailableMemoryTest, IsBoundedByTheTightestGroupAround) {
  Put("/proc/self/cgroup", "0::/jobs/7/task\n");
  Group("/sys/fs/cgroup/jobs", std::to_string(70 * kMiB), 20 * kMiB);
  Group("/sys/fs/cgroup/jobs/7", std::to_string(40 * kMiB), 20 * kMiB);
  Group("/sys/fs/cgroup/jobs/7/task", std::to_string(60 * kMiB), kMiB);
  EXPECT_EQ(Measure().group, 21 * kMiB);
  const uint64_t job = Measure().group_id;
  EXPECT_NE(job, 0);
  // Another task of the job shares its limit, one with a tighter limit of its own does not.
  Put("/proc/self/cgroup", "0::/jobs/7/other\n");
  EXPECT_EQ(Measure().group_id, job);
  Group("/sys/fs/cgroup/jobs/7/other", std::to_string(9 * kMiB), 2 * kMiB);
  EXPECT_EQ(Measure().group, 8 * kMiB);
  EXPECT_NE(Measure().group_id, job);
}

TEST_F(AvailableMemoryTest, KnowsOlderGroups) {
  Put("/proc/self/cgroup", "12:cpuset:/a\n5:hugetlb,memory:/jobs/7\n1:memory_other:/b\n0::/x\n");
  Put("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "52428800\n");
  Put("/sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "20971520\n");
  Put("/sys/fs/cgroup/memory/jobs/7/memory.stat",
      "cache 1\ntotal_cache 2097152\ntotal_shmem 1048576\n");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Measure().group, 31 * kMiB);
}

TEST(AvailableMemory, OfThisMachineIsKnown) {
  EXPECT_GT(AvailableMemory(), 0);
  EXPECT_GE(MeasureAvailableMemory().machine, AvailableMemory());
}

}  // namespace
}  // namespace plimsoll::runtime
