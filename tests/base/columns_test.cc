#include "base/columns.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Columns, CountCharacters) {
  EXPECT_EQ(Columns(""), 0u);
  EXPECT_EQ(Columns("2 × 4 …"), 7u);
}

TEST(Columns, ShortenedTextEndsInAnEllipsis) {
  EXPECT_EQ(Shortened("keep all", 8), "keep all");
  EXPECT_EQ(Shortened("keep all", 7), "keep a…");
  EXPECT_EQ(Shortened("2 × 4 sequences", 4), "2 ×…");
}

TEST(Columns, WrappedTextBreaksAtSpaces) {
  EXPECT_EQ(Wrapped("keep all", 8, "  "), "keep all");
  EXPECT_EQ(Wrapped("blocks 0-3: keep all", 12, "  "), "blocks 0-3:\n  keep all");
  EXPECT_EQ(Wrapped("  a × b c", 7, "  "), "  a × b\n  c");
  EXPECT_EQ(Wrapped("a_word_too_long for it", 7, " "), "a_word_too_long\n for it");
}

}  // namespace
}  // namespace plimsoll
