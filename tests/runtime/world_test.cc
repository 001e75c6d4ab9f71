#include "runtime/ranks/world.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::runtime {
namespace {

int Launched(const std::map<std::string, std::string>& environment) {
  return LaunchedRanks([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchedRanks, AreWhatTheLauncherSays) {
  EXPECT_EQ(Launched({}), 1);
  EXPECT_EQ(Launched({{"OMPI_COMM_WORLD_SIZE", "8"}}), 8);
  EXPECT_EQ(Launched({{"OMPI_COMM_WORLD_SIZE", "1"}}), 1);
  EXPECT_EQ(Launched({{"PMI_SIZE", "4"}, {"PMI_RANK", "2"}}), 4);
  EXPECT_EQ(Launched({{"MV2_COMM_WORLD_SIZE", "3"}}), 3);
  EXPECT_EQ(Launched({{"PMI_SIZE", "many"}}), 1);
}

TEST(LaunchedRanks, OfSlurmAreThoseOfASrun) {
  const std::map<std::string, std::string> batch_script = {{"SLURM_NTASKS", "16"},
                                                           {"SLURM_PROCID", "0"}};
  EXPECT_EQ(Launched(batch_script), 1);
  auto task = batch_script;
  task["SLURM_STEP_NUM_TASKS"] = "16";
  task["PMIX_RANK"] = "5";
  EXPECT_EQ(Launched(task), 16);
  // mpirun within a task, with fewer ranks.
  task["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_EQ(Launched(task), 2);
}

TEST(LaunchedRanks, RefuseTasksThatCannotFindEachOther) {
  ExpectUserError(
      [] {
        Launched({{"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_PROCID", "3"}});
      },
      {"srun", "16 tasks", "--mpi=pmix"});
}

TEST(World, NumbersItsRanks) {
  World& world = TestWorld();
  EXPECT_GE(world.rank(), 0);
  EXPECT_LT(world.rank(), world.size());
  std::set<std::string> ranks;
  for (const std::string& rank : world.Gather(std::to_string(world.rank()))) ranks.insert(rank);
  EXPECT_EQ(ranks.size(), static_cast<size_t>(world.size()));
}

TEST(World, KnowsItsNeighboursOnTheHost) {
  World& world = TestWorld();
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  EXPECT_EQ(world.host(), name);
  int before = 0, neighbours = 0;
  const std::vector<std::string> hosts = world.Gather(world.host());
  for (int r = 0; r < world.size(); ++r) {
    if (hosts[r] != world.host()) continue;
    ++neighbours;
    if (r < world.rank()) ++before;
  }
  EXPECT_EQ(world.local_size(), neighbours);
  EXPECT_EQ(world.local_rank(), before);
}

TEST(World, BroadcastsTextsOfAnyBytes) {
  World& world = TestWorld();
  for (int root = 0; root < world.size(); ++root) {
    const std::string text = "from " + std::to_string(root) + std::string("\0\n\xff", 3);
    const std::string mine =
        world.rank() == root ? text : std::string("ignored, and longer than that");
    EXPECT_EQ(world.Broadcast(mine, root), text);
    EXPECT_EQ(world.Broadcast(world.rank() == root ? "" : "ignored", root), "");
  }
  EXPECT_EQ(world.Broadcast("as usual from rank 0"), "as usual from rank 0");
}

TEST(World, BroadcastsLongTexts) {
  World& world = TestWorld();
  std::string text(3'000'001, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 % 251);
  EXPECT_TRUE(world.Broadcast(world.rank() == world.size() - 1 ? text : "", world.size() - 1) ==
              text);
}

TEST(World, GathersTextsOfDifferentLengths) {
  World& world = TestWorld();
  const auto text_of = [](int rank) { return std::string(static_cast<size_t>(rank) * 3, 'a'); };
  const std::vector<std::string> texts = world.Gather(text_of(world.rank()));
  ASSERT_EQ(texts.size(), static_cast<size_t>(world.size()));
  for (int r = 0; r < world.size(); ++r) EXPECT_EQ(texts[r], text_of(r));
}

TEST(World, SplitsByColourInTheOrderOfKeys) {
  World& world = TestWorld();
  const int color = world.rank() % 2;
  const auto group = world.Split(color, -world.rank());
  std::vector<std::string> expected;
  for (int r = world.size() - 1; r >= 0; --r) {
    if (r % 2 == color) expected.push_back("rank " + std::to_string(r));
  }
  EXPECT_EQ(group->Gather("rank " + std::to_string(world.rank())), expected);
  group->Barrier();
  // A group of a group; equal keys keep the order.
  const auto same = group->Split(0, 0);
  EXPECT_EQ(same->rank(), group->rank());
  EXPECT_EQ(same->size(), group->size());
}

TEST(World, MakesGroupsOfOne) {
  World& world = TestWorld();
  const auto alone = world.Split(world.rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->rank(), 0);
  EXPECT_EQ(alone->Broadcast("mine"), "mine");
  EXPECT_EQ(alone->Gather("mine"), std::vector<std::string>{"mine"});
  EXPECT_EQ(alone->MakeCpuCommunicator()->size(), 1);
}

TEST(World, ServesOtherThreadsInTurn) {
  World& world = TestWorld();
  std::vector<std::string> texts;
  std::thread([&] { texts = world.Gather("from a thread"); }).join();
  EXPECT_EQ(texts, std::vector<std::string>(world.size(), "from a thread"));
}

TEST(World, ComesThroughBarriers) {
  for (int i = 0; i < 10; ++i) TestWorld().Barrier();
}

}  // namespace
}  // namespace plimsoll::runtime
