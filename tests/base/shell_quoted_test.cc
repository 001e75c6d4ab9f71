// Words that a shell reads back.
#include "base/shell_quoted.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(ShellQuoted, OnlyWhereItHasToBe) {
  EXPECT_EQ(ShellQuoted("train.steps=100"), "train.steps=100");
  EXPECT_EQ(ShellQuoted(""), "''");
  EXPECT_EQ(ShellQuoted("my pics [v1]"), "'my pics [v1]'");
  EXPECT_EQ(ShellQuoted("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace plimsoll
