#include "memory/interconnect.h"

#include <gtest/gtest.h>

#include "base/axes.h"

namespace plimsoll::memory {
namespace {

constexpr double kGB = 1e9;

// The calls take so many seconds more with 4 channels than with 32: a hundredth of the shortest
// step for which 4 are enough.
void ExpectLonger(const MeshTraffic& traffic, double seconds) {
  EXPECT_EQ(FewestChannels(traffic, 100.01 * seconds), 4);
  EXPECT_GT(FewestChannels(traffic, 99.99 * seconds), 4);
}

TEST(Interconnect, TimesFollowFromWhatEachGpuSends) {
  // 4 ranks: each sends 2 · 3/4 of the bytes of an all-reduce.
  ExpectLonger({{.axis = DataAxis(4), .all_reduce = 10 * kGB}}, 15.0 / 166 - 15.0 / 260);
  // Copy engines gather as fast with any number of channels.
  const AxisTraffic zero = {.axis = DataAxis(4), .reduce_scatter = 4 * kGB, .all_gather = 4 * kGB};
  ExpectLonger({zero}, 3.0 / 100 - 3.0 / 207);
  const AxisTraffic layers = {.axis = TensorAxis(2), .all_gather = 2 * kGB};
  ExpectLonger({zero, layers}, 3.0 / 100 - 3.0 / 207 + 1.0 / 192 - 1.0 / 278);
  EXPECT_EQ(FewestChannels({{.axis = DataAxis(1), .all_reduce = kGB}}, 0), 4);
}

TEST(Interconnect, TakesTheFewestChannelsThatCostLittle) {
  // 7.5 GB: 45.2 ms with 4 channels, 28.8 with 32.
  const MeshTraffic sums = {{.axis = DataAxis(4), .all_reduce = 5 * kGB}};
  EXPECT_EQ(FewestChannels(sums, 10), 4);
  EXPECT_EQ(FewestChannels(sums, 1), 8);
  // 37.5 GB: 198 ms with 8 channels, 181 with 16 and 32.
  const MeshTraffic zero = {{.axis = DataAxis(4), .reduce_scatter = 50 * kGB}};
  EXPECT_EQ(FewestChannels(zero, 2), 8);
  EXPECT_EQ(FewestChannels(zero, 1), 16);
  EXPECT_EQ(FewestChannels({}, 1), 4);
}

TEST(Interconnect, FewerChannelsTakeLess) {
  constexpr int64_t kMiB = 1 << 20;
  const Mesh data({DataAxis(4), TensorAxis(1)}), tensor({DataAxis(1), TensorAxis(2)});
  const Mesh both({DataAxis(4), TensorAxis(2)});
  EXPECT_EQ(CommunicatorBytes({}, 8), 0);
  EXPECT_EQ(CommunicatorBytes(data, 32), 428 * kMiB);
  EXPECT_EQ(CommunicatorBytes(data, 8), 284 * kMiB);
  EXPECT_EQ(CommunicatorBytes(tensor, 8), 502 * kMiB);
  EXPECT_EQ(CommunicatorBytes(both, 8), (284 + 92 + 218) * kMiB);
  EXPECT_GT(CommunicatorBytes(tensor, 16), CommunicatorBytes(tensor, 8));
  // A communicator for each direction, of 8 channels at most.
  const Mesh stages({PipelineAxis(2)});
  EXPECT_EQ(CommunicatorBytes(stages, 4), (260 + 2 * 158) * kMiB);
  EXPECT_EQ(CommunicatorBytes(stages, 32), (428 + 2 * 190) * kMiB);
  // Ends that share tables, with others between them.
  EXPECT_EQ(CommunicatorBytes(Mesh({PipelineAxis(3)}), 4), CommunicatorBytes(stages, 4));
  EXPECT_EQ(CommunicatorBytes(Mesh({PipelineAxis(3, true)}), 4),
            CommunicatorBytes(stages, 4) + 68 * kMiB);
  // An axis of an unknown kind.
  const Mesh three({DataAxis(4), {.name = "context", .ranks = 2}, TensorAxis(2)});
  EXPECT_EQ(CommunicatorBytes(three, 8), CommunicatorBytes(both, 8) + 92 * kMiB);
}

}  // namespace
}  // namespace plimsoll::memory
