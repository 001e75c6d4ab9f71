// Golden tests of passes: text in, text out.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "graph/text.h"
#include "graph/verifier.h"

namespace plimsoll::graph {

// Parses and verifies.
inline Program Parse(std::string_view text) {
  Program program = ParseProgram(text);
  Verify(program);
  return program;
}

// Compares both in ToText's form, so spacing and comments don't matter.
inline void ExpectProgram(const Program& program, std::string_view golden) {
  EXPECT_NO_THROW(Verify(program));
  EXPECT_EQ(ToText(program), ToText(ParseProgram(golden)));
}

}  // namespace plimsoll::graph
