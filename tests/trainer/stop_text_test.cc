#include <gtest/gtest.h>

#include "base/random.h"
#include "trainer/language/generate.h"

namespace plimsoll::trainer {
namespace {

std::string Whole(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopText stop(stops);
  std::string text;
  for (const std::string& piece : pieces) text += stop.Push(piece);
  return text + stop.Finish();
}

TEST(StopText, EndsBeforeTheFirstStringWhereverPiecesEnd) {
  EXPECT_EQ(Whole({"\n\n"}, {"a\n", "b\n", "\nc"}), "a\nb");
  EXPECT_EQ(Whole({"stop", "b"}, {"a st", "ob"}), "a sto");
  EXPECT_EQ(Whole({"end"}, {"en", "en", "ough e"}), "enenough e");
  EXPECT_EQ(Whole({"aab"}, {"a", "a", "a", "b", "c"}), "a");
  EXPECT_EQ(Whole({}, {"a", "b"}), "ab");
  EXPECT_EQ(Whole({"x"}, {"x"}), "");
}

TEST(StopText, HoldsBackNoMoreThanAStopMayBeginWith) {
  const std::vector<std::string> stops = {"END"};
  StopText stop(stops);
  EXPECT_EQ(stop.Push("the E"), "the ");
  EXPECT_EQ(stop.Push("N"), "");
  EXPECT_EQ(stop.Push("T"), "ENT");
  EXPECT_EQ(stop.Push("E"), "");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.Push("ND"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.Push("more"), "");
  EXPECT_EQ(stop.Finish(), "");
}

// What is returned never reaches into the first stop string, and is its whole text in the end.
TEST(StopText, RandomPiecesGiveThePrefixOfTheWholeText) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    auto draw = [&, n = uint64_t{0}](uint64_t below) mutable { return Hash(seed, n++) % below; };
    std::vector<std::string> stops(1 + draw(3));
    for (std::string& stop : stops) {
      for (uint64_t i = 1 + draw(4); i > 0; --i) stop += static_cast<char>('a' + draw(2));
    }
    std::string whole, got;
    StopText stop(stops);
    const auto first = [&] {
      size_t at = whole.size();
      for (const std::string& text : stops) at = std::min(at, whole.find(text));
      return at;
    };
    for (uint64_t pieces = draw(12); pieces > 0 && !stop.stopped(); --pieces) {
      std::string piece;
      for (uint64_t i = draw(4); i > 0; --i) piece += static_cast<char>('a' + draw(2));
      whole += piece;
      got += stop.Push(piece);
      ASSERT_LE(got.size(), first()) << seed;
      ASSERT_EQ(stop.stopped(), first() < whole.size()) << seed;
    }
    got += stop.Finish();
    ASSERT_EQ(got, whole.substr(0, first())) << seed;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
