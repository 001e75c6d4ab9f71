#include "formats/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

JsonObject Object(const std::string& text) { return JsonObject::FromText(text, "a.json"); }

TEST(Json, ReadsTypedMembers) {
  const JsonObject object = Object(
      R"({"i": -3, "whole": 12.0, "f": 0.5, "b": true, "s": "x", "n": null,
          "fs": [1, 2.5], "is": [1, 2], "ss": ["a"], "o": {"k": 7}, "os": [{"k": 8}]})");
  EXPECT_EQ(object.RequireInt("i"), -3);
  EXPECT_EQ(object.RequireInt("whole"), 12);
  EXPECT_EQ(object.RequireFloat("f"), 0.5);
  EXPECT_EQ(object.RequireFloat("i"), -3.0);
  EXPECT_TRUE(object.RequireBool("b"));
  EXPECT_EQ(object.RequireString("s"), "x");
  EXPECT_EQ(object.RequireFloats("fs"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(object.RequireInts("is"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(object.RequireStrings("ss"), std::vector<std::string>{"a"});
  EXPECT_EQ(object.RequireObject("o").RequireInt("k"), 7);
  EXPECT_EQ(object.RequireObjects("os").at(0).RequireInt("k"), 8);
}

TEST(Json, AbsentAndNullMembersGiveTheFallback) {
  const JsonObject object = Object(R"({"n": null})");
  EXPECT_FALSE(object.Has("n"));
  EXPECT_FALSE(object.Has("m"));
  EXPECT_EQ(object.GetInt("n", 4, 5, 6), 4);
  EXPECT_EQ(object.GetFloat("m", 0.25), 0.25);
  EXPECT_TRUE(object.GetBool("m", true));
  EXPECT_EQ(object.GetString("n", "none"), "none");
  EXPECT_EQ(UserErrorOf([&] { object.RequireInt("n"); }), "a.json: n: this key is required");
}

TEST(Json, ANestedObjectOutlivesItsParent) {
  const JsonObject inner = Object(R"({"o": {"p": {"k": "long enough to lie on the heap"}}})")
                               .RequireObject("o")
                               .RequireObject("p");
  EXPECT_EQ(inner.RequireString("k"), "long enough to lie on the heap");
  EXPECT_EQ(UserErrorOf([&] { inner.RequireInt("k"); }),
            "a.json: o.p.k: expected an integer, found \"long enough to lie on the heap\"");
}

TEST(Json, WrongTypesAndRangesAreNamed) {
  const JsonObject object = Object(
      R"({"i": 12.5, "big": 18446744073709551615, "huge": 1e300, "s": 3, "a": [1, "x"], "n": 5})");
  const auto error = [](auto action) { return UserErrorOf(action); };
  EXPECT_EQ(error([&] { object.RequireInt("i"); }), "a.json: i: expected an integer, found 12.5");
  EXPECT_EQ(error([&] { object.RequireInt("big"); }),
            "a.json: big: expected an integer, found 18446744073709551615");
  EXPECT_EQ(error([&] { object.RequireInt("huge"); }),
            "a.json: huge: expected an integer, found 1e+300");
  EXPECT_EQ(error([&] { object.RequireInt("n", 1, 4); }),
            "a.json: n: expected an integer from 1 to 4, found 5");
  EXPECT_EQ(error([&] { object.GetInt("n", 9, 6); }),
            "a.json: n: expected an integer of at least 6, found 5");
  EXPECT_EQ(error([&] { object.RequireString("s"); }), "a.json: s: expected a string, found 3");
  EXPECT_EQ(error([&] { object.RequireBool("s"); }), "a.json: s: expected true or false, found 3");
  EXPECT_EQ(error([&] { object.RequireFloat("a"); }),
            "a.json: a: expected a number, found an array");
  EXPECT_EQ(error([&] { object.RequireFloats("a"); }),
            "a.json: a: element 1: expected a number, found \"x\"");
  EXPECT_EQ(error([&] { object.RequireInts("a", 2); }),
            "a.json: a: element 0: expected an integer of at least 2, found 1");
  EXPECT_EQ(error([&] { object.RequireStrings("a"); }),
            "a.json: a: element 0: expected a string, found 1");
  EXPECT_EQ(error([&] { object.RequireObject("n"); }), "a.json: n: expected an object, found 5");
  EXPECT_EQ(error([&] { object.RequireObjects("a"); }),
            "a.json: a[0]: expected an object, found 1");
  EXPECT_EQ(error([&] { object.RequireFloats("n"); }), "a.json: n: expected an array, found 5");
  EXPECT_EQ(error([] { Object("[1]"); }), "a.json: expected a JSON object, found an array");
}

TEST(Json, RefusesWhatIsNotStrictJson) {
  const auto error = [](const std::string& text) {
    return UserErrorOf([&] { ParseJson(text, "a.json"); });
  };
  EXPECT_EQ(error(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
            "a.json: key \"a\" appears twice in one object; keep one");
  EXPECT_EQ(error(std::string(65, '[') + std::string(65, ']')),
            "a.json: nested deeper than 64 levels; no file of this kind needs more");
  EXPECT_EQ(error("{\"a\":\n tru}").rfind("a.json: not valid JSON: parse error at line 2", 0), 0u);
  EXPECT_EQ(error("").rfind("a.json: not valid JSON: ", 0), 0u);
  EXPECT_EQ(error("{} x").rfind("a.json: not valid JSON: ", 0), 0u);
  EXPECT_EQ(error("[1e999]").rfind("a.json: not valid JSON: ", 0), 0u);
  EXPECT_EQ(error("[NaN]").rfind("a.json: not valid JSON: ", 0), 0u);
  EXPECT_EQ(error("[\"\xff\"]").rfind("a.json: not valid JSON: ", 0), 0u);
  EXPECT_NO_THROW(ParseJson(std::string(64, '[') + std::string(64, ']'), "a.json"));
}

TEST(Json, ReadsFiles) {
  const TempFolder folder;
  EXPECT_EQ(JsonObject::FromFile(folder.Write("a.json", R"({"k": 1})")).RequireInt("k"), 1);
  const std::string broken = folder.Write("b.json", "{\"k\":");
  EXPECT_EQ(UserErrorOf([&] { ReadJson(broken); }).rfind(broken + ": not valid JSON: ", 0), 0u);
  const std::string missing = folder / "c.json";
  EXPECT_EQ(UserErrorOf([&] { ReadJson(missing); }).rfind(missing + ": ", 0), 0u);
}

TEST(Json, PrintableKeepsMessagesToOneShortLine) {
  EXPECT_EQ(Printable("a\nb\x7f\xc3\xa9"), "a\\x0ab\\x7f\xc3\xa9");
  EXPECT_EQ(Printable(std::string(1000, 'x')).size(), 163u);
}

}  // namespace
}  // namespace plimsoll::formats
