#include "memory/interconnect.h"

#include <gtest/gtest.h>

namespace plimsoll::memory {
namespace {

constexpr double kGB = 1e9;

TEST(Interconnect, TimesFollowFromWhatEachGpuSends) {
  // 4 ranks: of an all-reduce each sends 2 · 3/4 of the bytes.
  const MeshTraffic sums = {.data = {.ranks = 4, .all_reduce = 10 * kGB}};
  EXPECT_NEAR(CollectiveSeconds(sums, 8), 15.0 / 259, 1e-9);
  const MeshTraffic zero = {.data = {.ranks = 4, .reduce_scatter = 4 * kGB, .all_gather = 4 * kGB}};
  EXPECT_NEAR(CollectiveSeconds(zero, 16), 3.0 / 207 + 3.0 / 371, 1e-9);
  const MeshTraffic both = {.data = zero.data, .tensor = {.ranks = 2, .all_gather = 2 * kGB}};
  EXPECT_NEAR(CollectiveSeconds(both, 16), CollectiveSeconds(zero, 16) + 1.0 / 300, 1e-9);
  EXPECT_EQ(CollectiveSeconds({.data = {.ranks = 1, .all_reduce = kGB}}, 4), 0);
}

TEST(Interconnect, TakesTheFewestChannelsThatCostLittle) {
  // 7.5 GB: 45.2 ms with 4 channels, 28.8 with 32.
  const MeshTraffic sums = {.data = {.ranks = 4, .all_reduce = 5 * kGB}};
  EXPECT_EQ(FewestChannels(sums, 10), 4);
  EXPECT_EQ(FewestChannels(sums, 1), 8);
  // 37.5 GB: 198 ms with 8 channels, 181 with 16 and 32.
  const MeshTraffic zero = {.data = {.ranks = 4, .reduce_scatter = 50 * kGB}};
  EXPECT_EQ(FewestChannels(zero, 2), 8);
  EXPECT_EQ(FewestChannels(zero, 1), 16);
  EXPECT_EQ(FewestChannels({}, 1), 4);
}

TEST(Interconnect, FewerChannelsTakeLess) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(CommunicatorBytes(false, false, 8), 0);
  EXPECT_EQ(CommunicatorBytes(true, false, 32), 428 * kMiB);
  EXPECT_EQ(CommunicatorBytes(true, false, 8), 284 * kMiB);
  EXPECT_EQ(CommunicatorBytes(false, true, 8), 502 * kMiB);
  EXPECT_GT(CommunicatorBytes(true, true, 8), CommunicatorBytes(true, false, 8));
  EXPECT_GT(CommunicatorBytes(false, true, 16), CommunicatorBytes(false, true, 8));
}

}  // namespace
}  // namespace plimsoll::memory
