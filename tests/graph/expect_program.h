// Golden tests of passes: text in, text out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "graph/text.h"
#include "graph/verifier.h"

namespace plimsoll::graph {

// Parses and verifies.
inline Program Parse(std::string_view text) {
  Program program = ParseProgram(text);
  Verify(program);
  return program;
}

// `golden`, in which each line "  …" becomes lines of `before`: those up to the line that follows
// "…", or up to the end of the phase.
inline std::string WithLinesOf(std::string_view before, std::string_view golden) {
  const auto lines = [](std::string_view text) {
    std::vector<std::string> all;
    std::istringstream in{std::string(text)};
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  };
  const std::vector<std::string> from = lines(before), to = lines(golden);
  std::string text;
  auto next = from.begin();
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == "  …") {
      while (next != from.end() && next->starts_with(' ') &&
             (i + 1 == to.size() || *next != to[i + 1])) {
        text += *next++ + "\n";
      }
      continue;
    }
    text += to[i] + "\n";
    const auto same = std::find(next, from.end(), to[i]);
    if (!to[i].empty() && same != from.end()) next = same + 1;
  }
  return text;
}

// Compares both in ToText's form, so spacing and comments don't matter. Lines "  …" of `golden` are
// those of `before`.
inline void ExpectProgram(const Program& program, std::string_view golden,
                          std::string_view before = "") {
  EXPECT_NO_THROW(Verify(program));
  EXPECT_EQ(ToText(program), ToText(ParseProgram(WithLinesOf(before, golden))));
}

// Expects that `pass` changes the program `before`, and what it becomes.
template <typename Pass>
void ExpectPass(Pass&& pass, std::string_view before, std::string_view golden) {
  Program program = Parse(before);
  EXPECT_TRUE(pass.Run(program).changed);
  ExpectProgram(program, golden, before);
}

// Expects that `fuse` finds `count` places in the program `before`, what it becomes, and that
// `fuse` finds none a second time.
template <typename Fuse>
void ExpectFused(Fuse&& fuse, int count, std::string_view before, std::string_view golden) {
  Program program = Parse(before);
  EXPECT_EQ(fuse(program), count);
  program.DropUnusedTensors();
  ExpectProgram(program, golden, before);
  EXPECT_EQ(fuse(program), 0);
}

}  // namespace plimsoll::graph
