// The source "synthetic_images".
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "data/prefetch.h"
#include "data/source.h"
#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

std::unique_ptr<Source> Make(int64_t classes, uint64_t seed) {
  const SourceKind* const kind = FindSource("synthetic_images");
  Settings settings;
  CompleteSettings(kind->settings, kind->complete, settings);
  return kind->make(settings, {.classes = classes}, seed);
}

struct Batch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  bool operator==(const Batch&) const = default;
};

Batch Read(const Source& source, int64_t first, int64_t rows) {
  constexpr int64_t kSize = 9;
  Batch batch{std::vector<float>(static_cast<size_t>(rows * kSize * kSize * 3), NAN),
              std::vector<int32_t>(static_cast<size_t>(rows), -7)};
  const graph::Slot slots[] = {
      {"images",
       {graph::DType::kFloat32, {rows, kSize, kSize, 3}},
       std::as_writable_bytes(std::span(batch.images))},
      {"labels", {graph::DType::kInt32, {rows}}, std::as_writable_bytes(std::span(batch.labels))}};
  source.Fill(first, slots);
  return batch;
}

TEST(SyntheticImages, DependOnSampleAndSeedAlone) {
  const auto source = Make(10, 5);
  const Batch all = Read(*source, 100, 6);
  const Batch part = Read(*source, 102, 2);
  const size_t each = part.images.size() / 2;
  EXPECT_TRUE(std::equal(part.images.begin(), part.images.end(), all.images.begin() + 2 * each));
  EXPECT_EQ(part.labels, std::vector<int32_t>(all.labels.begin() + 2, all.labels.begin() + 4));
  EXPECT_EQ(Read(*Make(10, 5), 100, 6), all);
  EXPECT_NE(Read(*Make(10, 6), 100, 6), all);
}

// What batch `number` of six rows holds: pixels and, for a model that makes images, noise.
struct GeneratorBatch {
  std::vector<float> images = std::vector<float>(6 * 9 * 9 * 3), noise = std::vector<float>(6 * 7);
  bool operator==(const GeneratorBatch&) const = default;

  std::vector<graph::Slot> Slots() {
    return {{"images",
             {graph::DType::kFloat32, {6, 9, 9, 3}},
             std::as_writable_bytes(std::span(images))},
            {"noise", {graph::DType::kFloat32, {6, 7}}, std::as_writable_bytes(std::span(noise))}};
  }
};

TEST(SyntheticImages, AreTheSameByAnyNumberOfWorkers) {
  const auto source = Make(10, 5);
  for (const int workers : {1, 2, 4, 9}) {
    Prefetcher prefetcher(*source, workers, [](int64_t number) { return 6 * number; });
    for (int64_t number = 3; number < 8; ++number) {
      GeneratorBatch batch, expected;
      source->Fill(6 * number, expected.Slots());
      prefetcher.Fill(number, batch.Slots());
      EXPECT_EQ(batch, expected);
    }
  }
}

TEST(SyntheticImages, AreNoiseWithLabelsOfAllClasses) {
  const Batch batch = Read(*Make(7, 5), 0, 400);
  double sum = 0, squares = 0;
  for (const float pixel : batch.images) {
    sum += pixel;
    squares += pixel * pixel;
  }
  const auto n = static_cast<double>(batch.images.size());
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
  std::vector<int> counts(7);
  for (const int32_t label : batch.labels) ++counts.at(static_cast<size_t>(label));
  for (const int count : counts) EXPECT_GT(count, 30);
}

TEST(SyntheticImages, SayWhatTheyDoNotFill) {
  std::vector<int32_t> values(4);
  const graph::Slot slots[] = {
      {"tokens", {graph::DType::kInt32, {4}}, std::as_writable_bytes(std::span(values))}};
  const auto message = MessageOf<UserError>([&] { Make(2, 1)->Fill(0, slots); });
  EXPECT_EQ(message.value_or(""),
            "made-up images have nothing for the model's input 'tokens', i32[4]; they fill images "
            "f32[B,H,W,C], labels and noise f32[B,D]");
}

}  // namespace
}  // namespace plimsoll::data
