#include "base/stripe.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

std::vector<int64_t> Numbers(const Stripe& stripe) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < stripe.count; ++i) numbers.push_back(stripe.Number(i));
  return numbers;
}

// Columns 4 … 6 of a matrix of 3 rows and 8 columns.
constexpr Stripe kColumns{.first = 4, .width = 3, .stride = 8, .skip = 0, .count = 9};

TEST(Stripe, NumbersItsElements) {
  EXPECT_EQ(Numbers(kColumns), (std::vector<int64_t>{4, 5, 6, 12, 13, 14, 20, 21, 22}));
  EXPECT_EQ(Numbers(kColumns.Part(2, 5)), (std::vector<int64_t>{6, 12, 13}));
  EXPECT_EQ(Numbers(kColumns.Part(2, 8).Part(3, 5)), (std::vector<int64_t>{14, 20}));
  EXPECT_EQ(Numbers(Stripe::Piece(7, 3)), (std::vector<int64_t>{7, 8, 9}));
  EXPECT_EQ(Numbers(Stripe::Piece(7, 0)), std::vector<int64_t>());
}

TEST(Stripe, CountsWhatLiesBelowANumber) {
  for (int64_t begin = 0; begin <= 9; ++begin) {
    for (int64_t end = begin; end <= 9; ++end) {
      const Stripe part = kColumns.Part(begin, end);
      for (int64_t number = 0; number < 30; ++number) {
        int64_t below = 0;
        for (const int64_t other : Numbers(part)) below += other < number;
        EXPECT_EQ(part.Below(number), below) << begin << " " << end << " " << number;
      }
    }
  }
}

TEST(Stripe, KnowsItsPieces) {
  const Stripe part = kColumns.Part(1, 8);
  for (int64_t i = 0; i < part.count; ++i) {
    for (int64_t k = 0; k < part.Together(i) && i + k < part.count; ++k) {
      EXPECT_EQ(part.Number(i + k), part.Number(i) + k);
    }
    const int64_t next = i + part.Together(i);
    if (next < part.count) {
      EXPECT_GT(part.Number(next), part.Number(next - 1) + 1);
    }
  }
}

}  // namespace
}  // namespace plimsoll
