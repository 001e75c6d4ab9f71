// Checks that the expectations fail where they should.
#include "tests/support/expect_error.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

void Nothing() {}
void UserMistake() { throw UserError("a.yaml:1: wrong; mend it"); }
void TwoLines() { throw UserError("a.yaml:1: wrong;\nmend it"); }
void Broken() { throw InternalError("node 1 is broken"); }

TEST(ExpectError, GivesTheMessage) {
  EXPECT_EQ(MessageOf<UserError>(UserMistake), "a.yaml:1: wrong; mend it");
  EXPECT_EQ(MessageOf<InternalError>(Broken), "node 1 is broken");
  EXPECT_EQ(MessageOf<UserError>(Nothing), std::nullopt);
  EXPECT_THROW(MessageOf<UserError>(Broken), InternalError);
  EXPECT_EQ(UserErrorOf(UserMistake), "a.yaml:1: wrong; mend it");
  ExpectUserError(UserMistake, {"a.yaml:1", "mend"});
  ExpectInternalError(Broken, {"node 1"});
}

TEST(ExpectError, FailsWithoutAnError) {
  EXPECT_NONFATAL_FAILURE(UserErrorOf(Nothing), "expected a UserError");
  EXPECT_FATAL_FAILURE(ExpectUserError(Nothing, {}), "expected an error");
  EXPECT_FATAL_FAILURE(ExpectInternalError(Nothing, {}), "expected an error");
}

TEST(ExpectError, FailsForSeveralLines) {
  EXPECT_NONFATAL_FAILURE(UserErrorOf(TwoLines), "mend it");
  EXPECT_NONFATAL_FAILURE(ExpectUserError(TwoLines, {"wrong"}), "mend it");
}

TEST(ExpectError, FailsForAMissingPart) {
  EXPECT_NONFATAL_FAILURE(ExpectUserError(UserMistake, {"a.yaml", "line 2"}), "no 'line 2' in:");
  EXPECT_NONFATAL_FAILURE(ExpectInternalError(Broken, {"node 2"}), "no 'node 2' in:");
}

}  // namespace
}  // namespace plimsoll
