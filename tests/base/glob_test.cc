#include "base/glob.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

TEST(MatchesGlob, IsShellStyle) {
  struct Case {
    std::string_view pattern, name;
    bool matches;
  };
  const std::vector<Case> cases = {
      {"", "", true},
      {"", "a", false},
      {"a", "", false},
      {"norm", "norm", true},
      {"norm", "norm_1", false},
      {"norm", "a.norm", false},
      // * matches any run of characters, including an empty one and dots.
      {"*", "", true},
      {"*", "block.0.norm", true},
      {"**", "", true},
      {"***", "a", true},
      {"*.bias", "block.0.qkv.bias", true},
      {"*.bias", "bias", false},
      {"*.bias", "qkv.bias_2", false},
      {"block.*", "block.", true},
      {"block.*", "block", false},
      {"a*b", "ab", true},
      {"a*b", "acbc", false},
      // ? matches exactly one character.
      {"?", "", false},
      {"?", "a", true},
      {"?", "ab", false},
      {"block.?.norm", "block.7.norm", true},
      {"block.?.norm", "block.17.norm", false},
      {"*?", "", false},
      {"*?", "a", true},
      {"?*?", "a", false},
      {"?*?", "ab", true},
      // Several stars.
      {"*.norm_*", "block.0.norm_1.weight", true},
      {"*.norm_*", "block.0.norm.weight", false},
      {"a*b*c", "a1b2c", true},
      {"a*b*c", "a1c2b", false},
      {"*a*a*", "a", false},
      {"*a*a*", "aa", true},
      // The first place where a piece matches is the wrong one.
      {"*ab", "aab", true},
      {"*ab", "abab", true},
      {"*ab", "abac", false},
      {"*.w.*.w", "x.w.w.y.w", true},
      {"a*b?d", "abcbcd", true},
      {"*a?c*e", "aabcabce", true},
      // A name's own star or question mark is not a wildcard, but * and ? match it.
      {"a", "*", false},
      {"a", "?", false},
      {"?", "*", true},
      {"*b", "*ab", true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(MatchesGlob(c.pattern, c.name), c.matches)
        << "'" << c.pattern << "' on '" << c.name << "'";
  }
}

}  // namespace
}  // namespace plimsoll
