// The source "synthetic_texts", and the labels of made-up samples of all kinds.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "data/source.h"
#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kSequence = 8, kVocab = 50, kClasses = 3;

std::unique_ptr<Source> Make(uint64_t seed) {
  const SourceKind* const kind = FindSource("synthetic_texts");
  Settings settings;
  CompleteSettings(kind->settings, kind->complete, settings);
  return kind->make(settings, {.sequence = kSequence, .vocab = kVocab, .classes = kClasses}, seed);
}

struct Batch {
  std::vector<int32_t> tokens, types, lengths, labels;
  std::vector<float> values, numbers;
  bool operator==(const Batch&) const = default;
};

Batch Read(const Source& source, int64_t first, int64_t rows) {
  const auto count = static_cast<size_t>(rows);
  const auto long_count = static_cast<size_t>(rows * kSequence);
  Batch batch = {.tokens = std::vector<int32_t>(long_count, -1),
                 .types = std::vector<int32_t>(long_count, -1),
                 .lengths = std::vector<int32_t>(count, -1),
                 .labels = std::vector<int32_t>(count, -1),
                 .values = std::vector<float>(count * kClasses, -1),
                 .numbers = std::vector<float>(count, -100)};
  const auto slot = [](const char* name, graph::DType dtype, graph::Shape shape, auto& values) {
    return graph::Slot{name, {dtype, shape}, std::as_writable_bytes(std::span(values))};
  };
  const std::vector<graph::Slot> slots = {
      slot("tokens", graph::DType::kInt32, {rows, kSequence}, batch.tokens),
      slot("token_types", graph::DType::kInt32, {rows, kSequence}, batch.types),
      slot("lengths", graph::DType::kInt32, {rows}, batch.lengths),
      slot("labels", graph::DType::kInt32, {rows}, batch.labels),
      slot("label_values", graph::DType::kFloat32, {rows, kClasses}, batch.values),
      slot("label_values", graph::DType::kFloat32, {rows}, batch.numbers)};
  source.Fill(first, slots);
  return batch;
}

TEST(SyntheticTexts, DependOnSampleAndSeedAlone) {
  const Batch all = Read(*Make(5), 100, 6), part = Read(*Make(5), 102, 2);
  EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), &all.tokens[2 * kSequence]));
  EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), &all.labels[2]));
  EXPECT_TRUE(std::equal(part.values.begin(), part.values.end(), &all.values[2 * kClasses]));
  EXPECT_TRUE(std::equal(part.numbers.begin(), part.numbers.end(), &all.numbers[2]));
  EXPECT_EQ(Read(*Make(5), 100, 6), all);
  EXPECT_NE(Read(*Make(6), 100, 6), all);
}

TEST(SyntheticTexts, HaveAllTokensAndAllLabels) {
  const Batch batch = Read(*Make(5), 0, 400);
  std::vector<int> tokens(kVocab), labels(kClasses);
  for (const int32_t token : batch.tokens) ++tokens.at(static_cast<size_t>(token));
  for (const int32_t label : batch.labels) ++labels.at(static_cast<size_t>(label));
  for (const int count : tokens) EXPECT_GT(count, 20);
  for (const int count : labels) EXPECT_GT(count, 80);
  EXPECT_EQ(batch.types, std::vector<int32_t>(400 * kSequence, 0));
  EXPECT_EQ(batch.lengths, std::vector<int32_t>(400, kSequence));
  double ones = 0, sum = 0, squares = 0;
  for (const float value : batch.values) {
    EXPECT_TRUE(value == 0 || value == 1) << value;
    ones += value;
  }
  EXPECT_NEAR(ones / (400 * kClasses), 0.5, 0.06);
  for (const float number : batch.numbers) {
    sum += number;
    squares += number * number;
  }
  EXPECT_NEAR(sum / 400, 0, 0.15);
  EXPECT_NEAR(squares / 400, 1, 0.2);
}

TEST(SyntheticTexts, SayWhatTheyDoNotFill) {
  std::vector<float> values(4);
  const graph::Slot slots[] = {
      {"images", {graph::DType::kFloat32, {4}}, std::as_writable_bytes(std::span(values))}};
  const auto message = MessageOf<UserError>([&] { Make(1)->Fill(0, slots); });
  EXPECT_EQ(message.value_or(""),
            "made-up texts have nothing for the model's input 'images', f32[4]; they fill tokens "
            "and token_types i32[B,T], lengths i32[B] and labels");
}

}  // namespace
}  // namespace plimsoll::data
