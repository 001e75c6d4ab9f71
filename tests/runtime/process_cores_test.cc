// The cores of a process by its binding and by control groups made up for it, and its share of
// them.
#include "runtime/process_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace plimsoll::runtime {
namespace {

constexpr double kNoLimit = ProcessCores::kNoLimit;

class ProcessCoresTest : public testing::Test {
 protected:
  void Put(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_.path() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double Quota() { return MeasureProcessCores(root_.path().c_str()).quota; }

  TempFolder root_;
};

TEST_F(ProcessCoresTest, AreThoseItIsBoundTo) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  const ProcessCores unbound = MeasureProcessCores(root_.path().c_str());
  EXPECT_EQ(static_cast<int>(unbound.numbers.size()), CPU_COUNT(&all));
  EXPECT_EQ(unbound.count(), CPU_COUNT(&all));
  EXPECT_EQ(unbound.quota, kNoLimit);
  const int last = unbound.numbers.back();
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(MeasureProcessCores(root_.path().c_str()).numbers, std::vector<int>{last});
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST_F(ProcessCoresTest, QuotaIsTheLeastOfTheGroupAndThoseAroundIt) {
  Put("/proc/self/cgroup", "0::/jobs/7/task\n");
  EXPECT_EQ(Quota(), kNoLimit);
  Put("/sys/fs/cgroup/jobs/7/task/cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), kNoLimit);
  Put("/sys/fs/cgroup/jobs/7/cpu.max", "250000 100000\n");
  EXPECT_EQ(Quota(), 2.5);
  Put("/sys/fs/cgroup/jobs/cpu.max", "1600000 100000\n");
  EXPECT_EQ(Quota(), 2.5);
  Put("/sys/fs/cgroup/jobs/7/task/cpu.max", "nonsense\n");
  EXPECT_EQ(Quota(), 2.5);
  EXPECT_NE(MeasureProcessCores(root_.path().c_str()).group_id, 0);
}

// A container sees its own limit at the top; its group's folder is out of sight.
TEST_F(ProcessCoresTest, QuotaOfOlderSystems) {
  Put("/proc/self/cgroup", "7:memory:/m\n5:cpuset:/a\n3:cpu,cpuacct:/docker/abc\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), kNoLimit);
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(Quota(), 0.5);
  EXPECT_EQ(MeasureProcessCores(root_.path().c_str()).count(), 1);
}

std::vector<int> Cores(int first, int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(ProcessCoresCount, APartOfACoreCountsAsOne) {
  EXPECT_EQ((ProcessCores{.numbers = Cores(0, 8)}).count(), 8);
  EXPECT_EQ((ProcessCores{.numbers = Cores(0, 8), .quota = 2.5}).count(), 3);
  EXPECT_EQ((ProcessCores{.numbers = Cores(0, 8), .quota = 3.0000000001}).count(), 3);
  EXPECT_EQ((ProcessCores{.numbers = Cores(0, 8), .quota = 100}).count(), 8);
  EXPECT_EQ((ProcessCores{.numbers = Cores(0, 8), .quota = 0.01}).count(), 1);
}

TEST(ShareOfCores, IsEvenAmongThoseThatHaveThem) {
  using All = std::vector<ProcessCores>;
  const auto shares = [](const All& all) {
    std::vector<int> shares;
    for (size_t i = 0; i < all.size(); ++i) shares.push_back(ShareOfCores(all, i));
    return shares;
  };
  EXPECT_EQ(shares({{.numbers = Cores(0, 16)}}), std::vector<int>{16});
  // Unbound; bound each to its own; bound two and two to a socket.
  EXPECT_EQ(shares(All(8, {.numbers = Cores(0, 128)})), std::vector<int>(8, 16));
  EXPECT_EQ(shares({{.numbers = Cores(0, 12)}, {.numbers = Cores(12, 12)}}),
            std::vector<int>(2, 12));
  EXPECT_EQ(shares({{.numbers = Cores(0, 8)},
                    {.numbers = Cores(0, 8)},
                    {.numbers = Cores(8, 8)},
                    {.numbers = Cores(8, 8)}}),
            std::vector<int>(4, 4));
  // A bound one among those that are not.
  EXPECT_EQ(shares({{.numbers = Cores(0, 4)}, {.numbers = Cores(0, 2)}}), (std::vector<int>{3, 1}));
  // Not more in all than there are, but one each.
  EXPECT_EQ(shares(All(3, {.numbers = Cores(0, 16)})), std::vector<int>(3, 5));
  EXPECT_EQ(shares(All(3, {.numbers = Cores(0, 3)})), std::vector<int>(3, 1));
  EXPECT_EQ(shares(All(3, {.numbers = Cores(0, 2)})), std::vector<int>(3, 1));
  // A job's quota is shared, a container's of its own is not.
  EXPECT_EQ(shares(All(4, {.numbers = Cores(0, 64), .quota = 16, .group_id = 7})),
            std::vector<int>(4, 4));
  EXPECT_EQ(shares({{.numbers = Cores(0, 64), .quota = 16, .group_id = 7},
                    {.numbers = Cores(0, 64), .quota = 16, .group_id = 8}}),
            std::vector<int>(2, 16));
}

}  // namespace
}  // namespace plimsoll::runtime
