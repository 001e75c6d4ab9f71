// The source "synthetic_volumes".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/held_out_batches.h"
#include "tests/data/volume_batches.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kVoxels = 6 * 8 * 10;
const graph::Shape kOne = {1, 6, 8, 10, 2};

graph::Shape Rows(int64_t rows) { return {rows, 6, 8, 10, 2}; }

std::unique_ptr<Source> Make(const std::map<std::string, SettingValue>& given = {},
                             uint64_t seed = 11) {
  return MakeVolumes("synthetic_volumes", kOne, 3, given, seed);
}

// Row `row` of a batch, as a batch of its own.
VolumeBatch RowOf(const VolumeBatch& batch, int64_t row) {
  const auto images = batch.images.begin() + row * kVoxels * 2;
  const auto labels = batch.labels.begin() + row * kVoxels;
  return {{images, images + kVoxels * 2}, {labels, labels + kVoxels}};
}

TEST(SyntheticVolumes, DependOnSampleAndSeedAlone) {
  const auto source = Make();
  const VolumeBatch all = ReadVolumes(*source, 100, Rows(4));
  EXPECT_EQ(ReadVolumes(*source, 102, Rows(1)), RowOf(all, 2));
  EXPECT_EQ(ReadVolumes(*Make(), 100, Rows(4)), all);
  EXPECT_NE(ReadVolumes(*Make({}, 12), 100, Rows(4)), all);
  EXPECT_NE(RowOf(all, 0), RowOf(all, 1));
  EXPECT_EQ(std::set<int32_t>(all.labels.begin(), all.labels.end()), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(source->epoch_samples(), std::nullopt);
  EXPECT_EQ(source->CountTargets("", 7, 3), 3 * kVoxels);
}

TEST(SyntheticVolumes, ComeOnceAnEpoch) {
  const auto source = Make({{"volumes", int64_t{5}}});
  EXPECT_EQ(source->epoch_samples(), 5);
  EXPECT_EQ(source->sizes(), std::vector<int64_t>{5});
  std::set<std::vector<float>> epochs[2];
  for (int64_t sample = 0; sample < 10; ++sample) {
    epochs[sample / 5].insert(ReadVolumes(*source, sample, Rows(1)).images);
  }
  EXPECT_EQ(epochs[0].size(), 5u);
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_NE(ReadVolumes(*source, 0, Rows(5)), ReadVolumes(*source, 5, Rows(5)));
}

TEST(SyntheticVolumes, HoldOutOthersForEverySeed) {
  const auto source = Make({{"held_out", int64_t{3}}, {"volumes", int64_t{4}}});
  const auto held_out = source->HeldOut(0);
  EXPECT_EQ(held_out->samples(), 3);
  EXPECT_EQ(source->HeldOut(2)->samples(), 2);
  EXPECT_EQ(Make({{"held_out", int64_t{0}}})->HeldOut(0), nullptr);
  const VolumeBatch batch = ReadVolumes(*held_out, 0, Rows(4));
  EXPECT_EQ(ReadVolumes(*Make({}, 12)->HeldOut(0), 0, Rows(3)), ReadVolumes(*held_out, 0, Rows(3)));
  const VolumeBatch train = ReadVolumes(*source, 0, Rows(4));
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t other = 0; other < 4; ++other) EXPECT_NE(RowOf(batch, row), RowOf(train, other));
  }
  // A row beyond them carries no loss.
  const VolumeBatch beyond = RowOf(batch, 3);
  EXPECT_EQ(std::ranges::count(beyond.images, 0), kVoxels * 2);
  EXPECT_EQ(std::ranges::count(beyond.labels, -1), kVoxels);
  EXPECT_EQ(held_out->CountTargets("", 0, 3), 3 * kVoxels);
  EXPECT_EQ(held_out->CountTargets("", 2, 2), kVoxels);
  EXPECT_EQ(HeldOutBatches(source->HeldOut(0), 2).count(), 2);
}

TEST(SyntheticVolumes, ArePicturesForModelsOfPictures) {
  const auto source = MakeVolumes("synthetic_volumes", {1, 24, 32, 1}, 3);
  const VolumeBatch batch = ReadVolumes(*source, 0, {2, 24, 32, 1});
  EXPECT_EQ(batch.labels.size(), 2u * 24 * 32);
  EXPECT_EQ(std::set<int32_t>(batch.labels.begin(), batch.labels.end()),
            (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(source->class_names(),
            (std::vector<std::string>{"background", "ellipsoid 1", "box 1"}));
}

TEST(SyntheticVolumes, TakeNoMemoryOnceTheyWereFilled) {
  const auto source = Make();
  std::vector<float> images(kVoxels * 2);
  std::vector<int32_t> labels(kVoxels);
  const graph::Slot slots[] = {
      {"images", {graph::DType::kFloat32, kOne}, std::as_writable_bytes(std::span(images))},
      {"labels",
       {graph::DType::kInt32, kOne.DropLast()},
       std::as_writable_bytes(std::span(labels))}};
  // Volumes have unequal numbers of objects.
  for (int64_t sample = 0; sample < 50; ++sample) source->Fill(sample, slots);
  EXPECT_EQ(CountAllocations([&] {
              for (int64_t sample = 0; sample < 50; ++sample) source->Fill(sample, slots);
            }),
            0);
}

TEST(SyntheticVolumes, SayWhatTheyDoNotFill) {
  std::vector<int32_t> labels(4);
  const graph::Slot slots[] = {
      {"labels", {graph::DType::kInt32, {4}}, std::as_writable_bytes(std::span(labels))}};
  EXPECT_EQ(UserErrorOf([&] { Make()->Fill(0, slots); }),
            "volumes have nothing for the model's input 'labels', i32[4]; they fill images "
            "f32[B,D,H,W,C] and labels i32[B,D,H,W], or both without D");
  EXPECT_THAT(UserErrorOf([] { MakeVolumes("synthetic_volumes", {}, 3); }),
              testing::HasSubstr("data.source: the model reads no images"));
  EXPECT_THAT(
      UserErrorOf([] {
        MakeVolumes("synthetic_volumes", {1, 7}, 3);
      }),
      testing::HasSubstr("data.source: volumes have nothing for the model's input 'images'"));
}

TEST(Sources, ThatFillInputsHaveTheirRanks) {
  const auto filling = [](const graph::Shape& images, const graph::Shape& labels) {
    const graph::Slot slots[] = {{"images", {graph::DType::kFloat32, images}, {}},
                                 {"labels", {graph::DType::kInt32, labels}, {}}};
    return SourcesThatFill(slots);
  };
  using testing::Contains;
  using testing::Not;
  EXPECT_THAT(filling({1, 8, 8, 1}, {1}), Contains("images"));
  EXPECT_THAT(filling({1, 8, 8, 1}, {1}), Not(Contains("synthetic_volumes")));
  EXPECT_THAT(filling({1, 8, 8, 1}, {1, 8, 8}), Contains("synthetic_volumes"));
  EXPECT_THAT(filling({1, 8, 8, 8, 1}, {1, 8, 8, 8}), Contains("synthetic_volumes"));
  EXPECT_THAT(filling({1, 8, 8, 8, 1}, {1, 8, 8, 8}), Not(Contains("images")));
}

}  // namespace
}  // namespace plimsoll::data
