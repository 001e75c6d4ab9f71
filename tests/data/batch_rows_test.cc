#include "data/batch_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::data {
namespace {

class BatchRows : public testing::Test {
 protected:
  graph::Slot Images(int64_t rows) {
    return {"images",
            {graph::DType::kFloat32, {rows, 2, 3}},
            std::as_writable_bytes(std::span(pixels_).first(static_cast<size_t>(rows) * 6))};
  }
  graph::Slot Labels(int64_t rows) {
    return {"labels",
            {graph::DType::kInt32, {rows}},
            std::as_writable_bytes(std::span(labels_).first(static_cast<size_t>(rows)))};
  }

  std::vector<float> pixels_ = std::vector<float>(60);
  std::vector<int32_t> labels_ = std::vector<int32_t>(10);
};

TEST_F(BatchRows, AreInTheMemoryOfTheBatch) {
  const std::vector<graph::Slot> slots = {Images(10), Labels(10)};
  EXPECT_EQ(RowsOf(slots), 10);
  std::vector<graph::Slot> part;
  TakeRows(slots, 4, 3, part);
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[0].name, "images");
  EXPECT_EQ(part[0].type.ToString(), "f32[3,2,3]");
  EXPECT_EQ(part[0].values<float>().data(), pixels_.data() + 24);
  EXPECT_EQ(part[0].values<float>().size(), 18u);
  EXPECT_EQ(part[1].type.ToString(), "i32[3]");
  EXPECT_EQ(part[1].values<int32_t>().data(), labels_.data() + 4);
  EXPECT_EQ(part[1].values<int32_t>().size(), 3u);
}

TEST_F(BatchRows, ThatDifferMakeOneRange) {
  const std::vector<graph::Slot> slots = {Images(10), Labels(5)};
  EXPECT_EQ(RowsOf(slots), 1);
  std::vector<graph::Slot> part;
  TakeRows(slots, 0, 1, part);
  EXPECT_EQ(part[0].type, slots[0].type);
  EXPECT_EQ(part[1].bytes.size(), slots[1].bytes.size());
}

TEST_F(BatchRows, OfNoSlotsAndOfScalarsAreOneRange) {
  EXPECT_EQ(RowsOf({}), 1);
  const graph::Slot scalar{"scale", {graph::DType::kFloat32, {}}, {}};
  EXPECT_EQ(RowsOf({&scalar, 1}), 1);
}

}  // namespace
}  // namespace plimsoll::data
