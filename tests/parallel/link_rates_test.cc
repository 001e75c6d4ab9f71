// The speed of the link to the host: who measures it, what is kept, and what plans make of it.
// Under mpirun, ranks agree on the slowest.
#include "trainer/resolve/link_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/mpi_test_main.h"
#include "tests/support/temp_folder.h"
#include "trainer/config/load.h"
#include "trainer/resolve/run_costs.h"

namespace plimsoll::trainer {
namespace {

using runtime::HostLink;

constexpr HostLink kLink = {50e9, 40e9, 30e9, 20e9};

// The first rank's cache is that of all.
class LinkRatesTest : public testing::Test {
 protected:
  LinkRatesTest() : cache_(TestWorld().Broadcast(folder_.path())) {
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
  }
  ~LinkRatesTest() override { TestWorld().Barrier(); }

  static config::RunConfig Config(const std::string& more) {
    return config::LoadText(
               "model: {family: gpt2, layers: 2, width: 64, heads: 2, vocab: 256, sequence: 32}\n"
               "data: {synthetic: true}\ntrain: {steps: 1}\ndevice: cuda\n" +
                   more,
               "run.yaml", {"parallel.data=" + std::to_string(TestWorld().size())},
               TestWorld().size())
        .config;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    if (!std::filesystem::exists(cache_ + "/plimsoll")) return files;
    for (const auto& entry : std::filesystem::directory_iterator(cache_ + "/plimsoll")) {
      files.push_back(entry.path().filename());
    }
    return files;
  }
  void Measure(const config::RunConfig& config, const std::optional<HostLink>& link) {
    MeasureLink(config, TestWorld(), [&] {
      ++measured_;
      return link;
    });
    TestWorld().Barrier();
  }

  TempFolder folder_;
  std::string cache_;
  int measured_ = 0;
};

TEST_F(LinkRatesTest, IsMeasuredOnceForRunsThatKeepSomethingOnTheHost) {
  const config::RunConfig plain = Config("");
  Measure(plain, kLink);
  EXPECT_EQ(measured_, 0);
  EXPECT_EQ(KnownLink(plain), std::nullopt);
  for (const char* more : {"optimizer: {place: host}", "memory: {weights: host}"}) {
    const config::RunConfig config = Config(more);
    Measure(config, kLink);
    EXPECT_EQ(measured_, 1) << more;  // by the first of them
    EXPECT_EQ(KnownLink(config), (memory::LinkRates{50e9, 40e9, 30e9, 20e9, true}));
  }
  EXPECT_EQ(Files().size(), 1);
}

TEST_F(LinkRatesTest, TheSlowestRankCounts) {
  const double size = TestWorld().size(), rank = TestWorld().rank();
  const config::RunConfig config = Config("optimizer: {place: host}");
  // Each way is slowest on another rank; one way alone cannot be slower than both.
  Measure(config, HostLink{50e9 + rank, 40e9 - rank, 30e9 + rank, 45e9});
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(KnownLink(config),
            (memory::LinkRates{50e9, 40e9 - size + 1, 30e9, 40e9 - size + 1, true}));
}

TEST_F(LinkRatesTest, OneRankThatCannotMeasureLeavesTheBuiltInRates) {
  const config::RunConfig config = Config("optimizer: {place: host}");
  const bool last = TestWorld().rank() + 1 == TestWorld().size();
  Measure(config, last ? std::nullopt : std::optional(kLink));
  EXPECT_EQ(KnownLink(config), std::nullopt);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(LinkRatesTest, WhatIsNotOfThisMachineIsNotMeasured) {
  Measure(Config("optimizer: {place: host}\nmemory: {calibrate: false}"), kLink);
  config::RunConfig elsewhere = Config("optimizer: {place: host}");
  elsewhere.planned_gpu = "h200";
  Measure(elsewhere, kLink);
  config::RunConfig fixed = Config("optimizer: {place: host}");
  fixed.memory.calibration = cache_;
  Measure(fixed, kLink);
  EXPECT_EQ(measured_, 0);
  EXPECT_THAT(LinkText(CostModelFor(elsewhere, {}).rates()),
              testing::HasSubstr("link 48.0 GB/s to the GPU, 48.0 back: built in"));
}

TEST_F(LinkRatesTest, PlansTakeItAndABadFileIsReplaced) {
  const config::RunConfig config = Config("optimizer: {place: host}");
  Measure(config, kLink);
  EXPECT_EQ(LinkText(CostModelFor(config, {}).rates()),
            "link 50.0 GB/s to the GPU, 40.0 back, 30.0 and 20.0 both ways at once: measured");
  ASSERT_EQ(Files().size(), 1);
  const std::string path = cache_ + "/plimsoll/" + Files().front();
  TestWorld().Barrier();
  for (const char* bad : {"{", "{\"to_device\": -1}", ""}) {
    if (TestWorld().rank() == 0) WriteFile(path, bad);
    TestWorld().Barrier();
    EXPECT_EQ(KnownLink(config), std::nullopt);
    TestWorld().Barrier();
    measured_ = 0;
    Measure(config, kLink);
    EXPECT_EQ(measured_, 1);
    EXPECT_TRUE(KnownLink(config).has_value());
    TestWorld().Barrier();
  }
}

}  // namespace
}  // namespace plimsoll::trainer
