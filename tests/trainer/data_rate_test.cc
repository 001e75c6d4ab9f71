// How fast data are prepared, as far as it can be measured, and what is said of it next to a step.
#include "trainer/resolve/data_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace plimsoll::trainer {
namespace {

using testing::StartsWith;

// Remembers which samples were asked for.
class Remembering final : public data::Source {
 public:
  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    if (first >= broken) throw UserError("broken");
    std::this_thread::sleep_for(sleep);
    firsts.push_back(first);
    rows = slots.front().type.shape.dim(0);
  }
  std::optional<int64_t> samples() const override { return count; }

  std::optional<int64_t> count = {};
  int64_t broken = std::numeric_limits<int64_t>::max();
  std::chrono::milliseconds sleep{0};
  mutable std::vector<int64_t> firsts;
  mutable int64_t rows = 0;
};

std::optional<DataRate> Measure(const data::Source& source, int64_t first = 2) {
  const graph::Slot slot{"images", {graph::DType::kFloat32, {2, 3}}, {}};
  return MeasureDataRate(source, first, std::span(&slot, 1));
}

TEST(MeasureDataRate, TakesAFewHundredSamplesInTheirOrder) {
  const Remembering source;
  const std::optional<DataRate> rate = Measure(source);
  ASSERT_TRUE(rate);
  EXPECT_GT(rate->seconds, 0);
  EXPECT_EQ(source.rows, 2);
  // Fewer only where another process holds this one up.
  ASSERT_LE(source.firsts.size(), 128u);
  for (size_t i = 0; i < source.firsts.size(); ++i) {
    EXPECT_EQ(source.firsts[i], static_cast<int64_t>(2 + 2 * i));
  }
}

// A sleeping thread is as one that waits for a disk.
TEST(MeasureDataRate, EndsWithSlowOnes) {
  Remembering source;
  source.sleep = std::chrono::milliseconds(70);
  const std::optional<DataRate> rate = Measure(source);
  ASSERT_TRUE(rate);
  EXPECT_LE(source.firsts.size(), 3u);
  EXPECT_GE(rate->seconds, 0.035);
  EXPECT_LT(rate->processor_seconds, rate->seconds);
}

TEST(MeasureDataRate, EndsWhereNoneAreLeft) {
  Remembering source;
  source.count = 9;
  EXPECT_TRUE(Measure(source));
  EXPECT_LE(source.firsts.size(), 3u);
  for (const int64_t first : source.firsts) EXPECT_LE(first + 2, 9);
  source.count = 3;
  EXPECT_FALSE(Measure(source));
}

// Training says so when it comes to that sample.
TEST(MeasureDataRate, PassesOverErrors) {
  Remembering source;
  source.broken = 6;
  EXPECT_TRUE(Measure(source));
  EXPECT_EQ(source.firsts.front(), 2);
  EXPECT_LE(source.firsts.back(), 4);
  source.broken = 0;
  EXPECT_FALSE(Measure(source));
  EXPECT_FALSE(MeasureDataRate(source, 0, {}));
}

config::RunConfig Exact() {
  config::RunConfig config;
  config.data.settings.Set("decode", std::string("exact"));
  return config;
}

constexpr DataRate kDecoding = {.seconds = 1e-3, .processor_seconds = 1e-3};
constexpr DataRate kSlowDisk = {.seconds = 1e-3, .processor_seconds = 1e-4};

DataSpeed Of(const DataRate& rate, int64_t workers, int cores, double step) {
  return DataSpeedOf(Exact(), rate, workers, cores, 100 * step, /*step_seconds=*/100);
}

TEST(DataSpeed, WorkersAreAsManyTimesFasterAsThereAreCores) {
  EXPECT_DOUBLE_EQ(Of(kDecoding, 8, 16, 1).prepared, 8000);
  EXPECT_DOUBLE_EQ(Of(kDecoding, 32, 16, 1).prepared, 16000);
  EXPECT_DOUBLE_EQ(Of(kSlowDisk, 32, 16, 1).prepared, 32000);
  EXPECT_DOUBLE_EQ(Of(kDecoding, 0, 16, 1).prepared, 1000);
}

TEST(DataSpeed, IsOneLineWhereTrainingHardlyWaits) {
  EXPECT_EQ(DataSpeedText(Of(kDecoding, 8, 16, 7900)),
            "data: 1k samples/s a thread, 8k with 8 workers; the step takes 7.9k/s");
  EXPECT_EQ(DataSpeedText(Of(kDecoding, 1, 16, 20)),
            "data: 1k samples/s a thread, 1k with 1 worker; the step takes 20/s");
  EXPECT_EQ(DataSpeedText(Of(kDecoding, 0, 16, 20)),
            "data: 1k samples/s a thread, between steps (data.workers: 0); the step takes 20/s");
}

TEST(DataSpeed, NamesAWayOut) {
  EXPECT_EQ(DataSpeedText(Of(kDecoding, 4, 16, 8000)),
            "data: 1k samples/s a thread, 4k with 4 workers; the step takes 8k/s and would wait 50 "
            "% of the time: data.workers: 8 (8k/s); for large JPEG files data.decode: fast");
  // As many as there are cores, but for the thread that makes the steps.
  EXPECT_THAT(Of(kDecoding, 8, 16, 32000).way_out, StartsWith("data.workers: 15 (15k/s); "));
  EXPECT_THAT(Of(kDecoding, 0, 16, 8000).way_out, StartsWith("data.workers: 8 (8k/s); "));
  EXPECT_THAT(Of(kDecoding, 0, 1, 8000).way_out, StartsWith("data.workers: 1 (1k/s); "));
  EXPECT_EQ(Of(kDecoding, 15, 16, 32000).way_out, "for large JPEG files data.decode: fast");
  // Threads that wait for a disk take no cores.
  EXPECT_THAT(Of(kSlowDisk, 15, 16, 32000).way_out, StartsWith("data.workers: 32 (32k/s); "));
  EXPECT_THAT(Of(kSlowDisk, 15, 1000, 1e9).way_out, StartsWith("data.workers: 256 (256k/s); "));
}

TEST(DataSpeed, FastDecodingIsNotProposedTwice) {
  config::RunConfig config;
  EXPECT_EQ(DataSpeedOf(config, kDecoding, 15, 16, 32000, 1).way_out, "");
  config.data.settings.Set("decode", std::string("fast"));
  const DataSpeed speed = DataSpeedOf(config, kDecoding, 15, 16, 30000, 1);
  EXPECT_EQ(DataSpeedText(speed),
            "data: 1k samples/s a thread, 15k with 15 workers; the step takes 30k/s and would wait "
            "50 % of the time");
}

TEST(DataSpeed, WaitingIsAShareOfTheTime) {
  EXPECT_DOUBLE_EQ(Of(kDecoding, 8, 16, 32000).WaitingShare(), 0.75);
  EXPECT_DOUBLE_EQ(Of(kDecoding, 8, 16, 8000).WaitingShare(), 0);
  // Nothing is prepared while the step runs.
  EXPECT_DOUBLE_EQ(Of(kDecoding, 0, 16, 1000).WaitingShare(), 0.5);
  const nlohmann::ordered_json json = DataSpeedJson(Of(kDecoding, 4, 16, 8000));
  EXPECT_EQ(json.dump(), R"({"thread_samples_per_s":1000.0,"workers":4,"samples_per_s":4000.0,)"
                         R"("step_samples_per_s":8000.0,"waiting_share":0.5})");
}

}  // namespace
}  // namespace plimsoll::trainer
