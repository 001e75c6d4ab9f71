// Places, and documents made to exhaust memory, the stack or time.

#include "trainer/config/yaml_tree.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace plimsoll::config {
namespace {

std::string ErrorOf(const std::string& text) {
  return MessageOf<UserError>([&] { ParseYaml(text, "f.yaml"); }).value_or("no error");
}

size_t Nodes(const Tree& tree) {
  size_t count = 1;
  for (const Tree& item : tree.items) count += Nodes(item);
  for (const TreeEntry& entry : tree.entries) count += Nodes(entry.value);
  return count;
}

TEST(YamlTree, RemembersPlaces) {
  const Tree tree = ParseYaml("a:\n  b: 1\n\nc: [x,\n  y]\n", "f.yaml");
  ASSERT_EQ(tree.entries.size(), 2u);
  EXPECT_EQ(tree.entries[0].value.entries[0].origin, "f.yaml:2");
  EXPECT_EQ(tree.entries[1].origin, "f.yaml:4");
  EXPECT_EQ(tree.entries[1].value.items[1].origin, "f.yaml:5");
  EXPECT_EQ(tree.entries[1].value.items[1].text, "y");
}

TEST(YamlTree, QuotesMakeStrings) {
  const Tree tree = ParseYaml("[3, \"3\", '3', !!str 3]", "f.yaml");
  EXPECT_FALSE(tree.items[0].quoted);
  for (int i : {1, 2, 3}) EXPECT_TRUE(tree.items[i].quoted) << i;
}

TEST(YamlTree, EmptyDocuments) {
  EXPECT_EQ(ParseYaml("", "f.yaml").kind, Tree::Kind::kNull);
  EXPECT_EQ(ParseYaml("# nothing\n", "f.yaml").kind, Tree::Kind::kNull);
  EXPECT_EQ(ParseYaml("---\n...\n", "f.yaml").kind, Tree::Kind::kNull);
}

TEST(YamlTree, NestedAliasesStopEarly) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string inner = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [" + inner;
    for (int k = 0; k < 9; ++k) bomb += ", " + inner;
    bomb += "]\n";
  }
  EXPECT_EQ(ErrorOf(bomb), "f.yaml:5: the document is too large once its aliases are written out");
  // One long text with many aliases to it.
  std::string long_text = "a: &a " + std::string(100000, 'x') + "\nb: [*a";
  for (int i = 0; i < 100; ++i) long_text += ", *a";
  EXPECT_EQ(ErrorOf(long_text + "]"),
            "f.yaml:2: the document is too large once its aliases are written out");
}

TEST(YamlTree, DepthIsBounded) {
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(ErrorOf(nested(32)), "no error");
  EXPECT_EQ(ErrorOf(nested(33)), "f.yaml:1: nested more than 32 levels deep");
  EXPECT_EQ(ErrorOf(std::string(100000, '[')), "f.yaml:1: nested more than 32 levels deep");
  // Through aliases: 31 levels inside one more are allowed, inside two more they are not.
  EXPECT_EQ(ErrorOf("[&a " + nested(30) + ", [*a]]"), "no error");
  EXPECT_EQ(ErrorOf("[&a " + nested(31) + ", [*a]]"), "f.yaml:1: nested more than 32 levels deep");
}

TEST(YamlTree, AliasInsideItself) {
  EXPECT_EQ(ErrorOf("a: &a [*a]"), "f.yaml:1: an alias is inside its own anchor");
}

// Patterns that begin with a star are easily left without quotes.
TEST(YamlTree, AliasesWithoutAnchorsNameTheirKey) {
  const auto refused = [](const std::string& place, const std::string& alias) {
    return place + alias +
           " is an alias in YAML, and has no anchor; put text that begins with * in quotes: \"" +
           alias + "\"";
  };
  EXPECT_EQ(ErrorOf("a: 1\nb:\n  c: *\n"), refused("f.yaml:3: b.c: ", "*"));
  EXPECT_EQ(ErrorOf("b: {\u00fc: \u00e4, c: [d, *.e.*], f: 1}\n"),
            refused("f.yaml:1: b.c: ", "*.e.*"));
  EXPECT_EQ(ErrorOf("b:\r\n  c:\r\n  - d\r\n  - *.e\r\n"), refused("f.yaml:4: b.c: ", "*.e"));
  EXPECT_EQ(ErrorOf("[*]"), refused("f.yaml:1: ", "*"));
  EXPECT_EQ(ErrorOf("a: &x [\"*\", d*]\nb: *x\n"), "no error");
}

TEST(YamlTree, SizeIsBounded) {
  EXPECT_EQ(ErrorOf(std::string((1 << 20) + 1, '#')),
            "f.yaml: 1048577 bytes; a configuration has at most 1048576");
}

TEST(YamlTree, OnlyUtf8) {
  EXPECT_EQ(ParseYaml("a: \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "f.yaml").entries[0].value.text,
            "ü € 😀");
  EXPECT_EQ(ErrorOf("a: 1\nb: \x04\n"),
            "f.yaml:2: byte 0x04 is not text; a configuration is UTF-8 YAML");
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_NE(ErrorOf(bad).find("is not text"), std::string::npos);
  }
}

TEST(YamlTree, MergeKeysAreShallow) {
  const Tree tree = ParseYaml("a: &a {x: 1, y: {p: 1, q: 2}}\nb: {<<: *a, y: {p: 3}}\n", "f.yaml");
  const Tree& b = tree.entries[1].value;
  ASSERT_EQ(b.entries.size(), 2u);
  EXPECT_EQ(b.entries[0].key, "y");
  EXPECT_EQ(Nodes(b.entries[0].value), 2u);
  EXPECT_EQ(b.entries[1].key, "x");
  EXPECT_EQ(b.entries[1].origin, "f.yaml:1");  // where it was written
}

TEST(YamlTree, QuoteIsOneShortLine) {
  EXPECT_EQ(Quote("a\n\"b\"\\\x01"), "\"a\\n\\\"b\\\"\\\\\\x01\"");
  EXPECT_EQ(Quote(std::string(1000, 'x')), "\"" + std::string(60, 'x') + "…\"");
  EXPECT_EQ(ShowKey("a.b_c"), "a.b_c");
  EXPECT_EQ(ShowKey("a b"), "\"a b\"");
}

}  // namespace
}  // namespace plimsoll::config
