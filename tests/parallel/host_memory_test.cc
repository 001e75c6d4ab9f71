// What the ranks of a host take together; under mpirun, ranks that agree on it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test_main.h"
#include "trainer/resolve/ranks.h"

namespace plimsoll::trainer {
namespace {

using runtime::AvailableMemoryBytes;
using runtime::DeviceKind;

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kNoLimit = AvailableMemoryBytes::kNoLimit;

void ExpectInOrder(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, text.npos) << "'" << part << "' is not in: " << text;
    at = found;
  }
}

TEST(HostMemory, RanksOfAHostAddUp) {
  std::vector<HostShare> ranks(4);
  for (int rank = 0; rank < 4; ++rank) {
    ranks[rank] = {rank / 2 * 2, rank < 2 ? "n1" : "n2", 12 * kGiB, {40 * kGiB, kNoLimit, 0}};
  }
  EXPECT_EQ(HostMemoryProblem(ranks, DeviceKind::kCuda), "");
  ranks[3].bytes = 28 * kGiB;
  EXPECT_EQ(HostMemoryProblem(ranks, DeviceKind::kCuda), "");  // as much as there is
  ranks[3].bytes = 36 * kGiB;
  ExpectInOrder(HostMemoryProblem(ranks, DeviceKind::kCuda),
                {"ranks 2, 3 on host n2", "48.0 GiB", "36.0 GiB", "the host has 40.0 GiB",
                 "memory.weights", "memory.host_budget", "each rank's", "20.0 GiB"});
  const std::string on_cpu = HostMemoryProblem(ranks, DeviceKind::kCpu);
  ExpectInOrder(on_cpu, {"ranks 2, 3", "train.micro_batch"});
  EXPECT_EQ(on_cpu.find("memory.host_budget"), on_cpu.npos);
  // All on one host.
  for (HostShare& rank : ranks) rank = {0, "n1", 12 * kGiB, rank.available};
  ExpectInOrder(HostMemoryProblem(ranks, DeviceKind::kCuda),
                {"ranks 0, 1, 2, 3 on host n1", "48.0 GiB"});
}

// Ranks of one control group share its limit, and those in groups of their own don't.
TEST(HostMemory, ControlGroupsLimitTheirRanks) {
  std::vector<HostShare> ranks(4);
  for (HostShare& rank : ranks) rank = {0, "n1", 12 * kGiB, {100 * kGiB, 40 * kGiB, 7}};
  ExpectInOrder(HostMemoryProblem(ranks, DeviceKind::kCuda),
                {"ranks 0, 1, 2, 3", "48.0 GiB", "control group", "leaves 40.0 GiB"});
  for (int rank = 0; rank < 4; ++rank) ranks[rank].available.group_id = 7 + rank;
  EXPECT_EQ(HostMemoryProblem(ranks, DeviceKind::kCuda), "");
  for (HostShare& rank : ranks) rank.available.machine = 40 * kGiB;
  ExpectInOrder(HostMemoryProblem(ranks, DeviceKind::kCuda), {"the host has 40.0 GiB"});
}

// The one of several ranks that has less to tell counts for all of its host.
TEST(HostMemory, TheLeastThatIsLeftCounts) {
  std::vector<HostShare> ranks(2, {0, "n1", 12 * kGiB, {40 * kGiB, kNoLimit, 0}});
  EXPECT_EQ(HostMemoryProblem(ranks, DeviceKind::kCuda), "");
  ranks[1].available.machine = 20 * kGiB;
  EXPECT_NE(HostMemoryProblem(ranks, DeviceKind::kCuda), "");
}

// A single rank of a host is refused by the session, which knows more of what it lacks.
TEST(HostMemory, ASingleRankIsNotJudged) {
  const std::vector<HostShare> ranks(1, {0, "n1", 12 * kGiB, {kGiB, kNoLimit, 0}});
  EXPECT_EQ(HostMemoryProblem(ranks, DeviceKind::kCuda), "");
}

// Every rank of the job fits alone, all together do not; each of them gets the same error.
TEST(HostMemory, AllRanksStop) {
  runtime::World& world = TestWorld();
  const int64_t size = world.size();
  const AvailableMemoryBytes available{size * kGiB, kNoLimit, 0};
  RequireHostMemory(world, kGiB, DeviceKind::kCuda, available);
  const int64_t last = world.rank() + 1 == size ? kGiB + 1 : kGiB;
  if (size == 1) return RequireHostMemory(world, last, DeviceKind::kCuda, available);
  std::string problem;
  try {
    RequireHostMemory(world, last, DeviceKind::kCuda, available);
  } catch (const UserError& error) {
    problem = error.what();
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
  }
  ExpectInOrder(problem, {"ranks 0, 1", "host " + world.host(), "memory.host_budget"});
  for (const std::string& other : world.Gather(problem)) EXPECT_EQ(other, problem);
}

}  // namespace
}  // namespace plimsoll::trainer
