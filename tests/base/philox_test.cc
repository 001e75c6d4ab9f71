// Philox4x32-10 against the known answers of its authors' library (Random123, kat_vectors), and
// streams of words compared with single blocks.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Any piece of a stream equals that part of the blocks, wherever it starts, also where the low half
// of the counter wraps.
TEST(PhiloxStream, WordsAreThoseOfTheBlocks) {
  const int32_t rng[2] = {1337, -5};
  const int64_t key = (int64_t{9} << 32) + 4;
  const PhiloxStream stream(rng, key);
  for (uint64_t first :
       {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{64}, (uint64_t{1} << 34) - 40,
        (uint64_t{1} << 34) - 32, (uint64_t{1} << 34) - 3}) {
    for (int64_t count : {0, 1, 5, 31, 32, 33, 200}) {
      std::vector<uint32_t> words(count + 1, 42);
      stream.Words(first, count, words.data());
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = (first + i) / 4;
        const Block block = Philox4x32(
            {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 4, 9}, {1337, -5u});
        ASSERT_EQ(words[i], block[(first + i) % 4]) << first << " + " << i;
      }
      EXPECT_EQ(words[count], 42u);
    }
  }
}

TEST(DropThreshold, IsTheShareOfAllWords) {
  EXPECT_EQ(DropThreshold(0), 0u);
  EXPECT_EQ(DropThreshold(0.5), 0x80000000u);
  EXPECT_EQ(DropThreshold(0.25), 0x40000000u);
  EXPECT_EQ(DropThreshold(1 - 1e-12), 0xffffffffu);
  EXPECT_THROW(DropThreshold(1), InternalError);
  EXPECT_THROW(DropThreshold(-0.1), InternalError);
}

}  // namespace
}  // namespace plimsoll
