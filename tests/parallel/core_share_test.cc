// The cores that a rank has, and the threads that prepare its data on them; under mpirun, of ranks
// that share them.
#include "trainer/resolve/core_share.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/mpi_test_main.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/source_from.h"

namespace plimsoll::trainer {
namespace {

// Binds this process to one core while it lives.
class OnOneCore {
 public:
  OnOneCore() {
    sched_getaffinity(0, sizeof(all_), &all_);
    int core = 0;
    while (!CPU_ISSET(core, &all_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof(all_), &all_); }

 private:
  cpu_set_t all_ = {};
};

TEST(CoreShare, RanksOfAHostDivideItsCores) {
  runtime::World& world = TestWorld();
  ShareCores(world);
  const int share = CoresOfRank();
  EXPECT_GE(share, 1);
  EXPECT_LE(share, OwnCores());
  // All are on this host.
  int sum = 0, most = 0;
  for (const std::string& text : world.Gather(std::to_string(share))) sum += std::stoi(text);
  for (const std::string& text : world.Gather(std::to_string(OwnCores()))) {
    most = std::max(most, std::stoi(text));
  }
  EXPECT_LE(sum, std::max(most, world.size()));
  if (world.size() == 1) {
    EXPECT_EQ(share, OwnCores());
  }
}

TEST(CoreShare, RanksThatAreBoundToOneCoreHaveOne) {
  const OnOneCore bound;
  ShareCores(TestWorld());
  EXPECT_EQ(OwnCores(), 1);
  EXPECT_EQ(CoresOfRank(), 1);
}

TEST(CoreShare, DecidesTheWorkersOfAGpu) {
  ShareCores(TestWorld());
  const auto workers = [](const std::string& data, bool gpu, int batch = 8) {
    config::RunConfig config =
        LoadRunText(
            "model: {family: resnet, depth: 8, image_size: 8, classes: 5}\ndata: {source: "
            "synthetic_images" +
                data + "}\ntrain: {steps: 1, micro_batch: " + std::to_string(batch) +
                ", eval_every: 0}\n",
            "run.yaml", {"device=cpu"})
            .config;
    if (gpu) {
      config.device = config::Device::kCuda;
      config.planned_gpu = "h200";
    }
    return DataWorkersFrom(config);
  };
  EXPECT_EQ(workers("", /*gpu=*/false), 0);
  EXPECT_EQ(workers("", /*gpu=*/true), std::clamp(CoresOfRank() - 1, 1, 32));
  EXPECT_EQ(workers(", workers: 5", /*gpu=*/true), 5);
  EXPECT_EQ(workers(", workers: 0", /*gpu=*/true), 0);
  EXPECT_EQ(workers("", /*gpu=*/true, /*batch=*/1), std::clamp(CoresOfRank() - 1, 1, 4));
  const OnOneCore bound;
  EXPECT_EQ(workers("", /*gpu=*/true), 1);
}

}  // namespace
}  // namespace plimsoll::trainer
