#include "models/sharding.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "tests/models/published.h"

namespace plimsoll::models {
namespace {

std::vector<float> Counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::vector<float> PartOf(const SplitParameter& split, int64_t rank) {
  std::vector<float> part(static_cast<size_t>(split.LocalShape().elements()));
  split.ForPieces(rank, [&](int64_t in_whole, int64_t in_part, int64_t count) {
    std::iota(part.begin() + in_part, part.begin() + in_part + count, static_cast<float>(in_whole));
  });
  return part;
}

TEST(Sharding, RowsAreTakenFromEachBlock) {
  const SplitParameter split({"qkv.bias", Sharding::kRows, {4, 2, 2}}, {8}, 2);
  EXPECT_EQ(split.LocalShape(), graph::Shape{4});
  EXPECT_EQ(PartOf(split, 0), (std::vector<float>{0, 1, 4, 6}));
  EXPECT_EQ(PartOf(split, 1), (std::vector<float>{2, 3, 5, 7}));
}

TEST(Sharding, RowsOfAMatrixKeepTheirColumns) {
  const SplitParameter split({"gate_up.weight", Sharding::kRows, {2, 2}}, {4, 3}, 2);
  EXPECT_EQ(split.LocalShape(), (graph::Shape{2, 3}));
  EXPECT_EQ(PartOf(split, 1), (std::vector<float>{3, 4, 5, 9, 10, 11}));
}

TEST(Sharding, ColumnsAreAPieceOfEveryRow) {
  const SplitParameter split({"proj.weight", Sharding::kColumns}, {2, 4}, 2);
  EXPECT_EQ(split.LocalShape(), (graph::Shape{2, 2}));
  EXPECT_EQ(PartOf(split, 0), (std::vector<float>{0, 1, 4, 5}));
  EXPECT_EQ(PartOf(split, 1), (std::vector<float>{2, 3, 6, 7}));
}

TEST(Sharding, PartsMakeUpEveryParameterOfAModel) {
  for (const ModelSpec& spec :
       {Gpt2Spec(2, 32, 4, 96, 16), LlamaSpec({2, 32, 8, 4, 8, 80, 96, 16, false}),
        Phi3Spec({2, 64, 8, 4, 8, 80, 96, 16, false}),
        Gemma2Spec({2, 32, 8, 4, 6, 80, 96, 16, true}),
        Gemma3Spec({2, 32, 8, 4, 6, 80, 96, 16, true}, 5)}) {
    const auto model = MakeModel(spec);
    const auto table = SplitParameters(*model, 4);
    EXPECT_GE(table.size(), 8u);
    for (const auto& [name, split] : table) {
      const std::vector<float> whole = Counted(split.shape().elements());
      std::vector<float> again(whole.size(), -1);
      for (int64_t rank = 0; rank < 4; ++rank) split.PutPart(PartOf(split, rank), rank, again);
      EXPECT_EQ(again, whole) << name;
    }
    EXPECT_EQ(table.count("norm.weight"), 0u);
    EXPECT_EQ(table.count("block.1.post_norm_1.weight"), 0u);
    EXPECT_EQ(table.at("block.1.attn.proj.weight").split(), Sharding::kColumns);
  }
  EXPECT_TRUE(SplitParameters(*MakeModel(Gpt2Spec(1, 8, 2, 16, 4)), 1).empty());
}

TEST(Sharding, RefusesWhatDoesNotDivide) {
  EXPECT_THROW(SplitParameter({"a", Sharding::kRows, {3, 5}}, {8}, 2), InternalError);
  EXPECT_THROW(SplitParameter({"a", Sharding::kColumns}, {8, 3}, 2), InternalError);
  EXPECT_THROW(SplitParameter({"a", Sharding::kRows, {4}}, {8}, 2), InternalError);
}

}  // namespace
}  // namespace plimsoll::models
