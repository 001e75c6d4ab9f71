// Walks the rules of a file's keys (formats/key_rules.h), and holds the file's reader to each.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/key_rules.h"

namespace plimsoll {

struct KeyWalk {
  std::span<const formats::KeyRule> rules;
  nlohmann::json valid;  // a file that is read
  // Reads such a file and describes all that was understood of it; throws as the reader does.
  std::function<std::string(const nlohmann::json&)> read;
  // What the file says besides where a key is only looked at next to others.
  std::map<std::string, nlohmann::json> beside = {};
  // Whether keys without a rule are refused; otherwise they change nothing.
  bool refuses_unknown = true;
  // Keys of kRead for which no type of value is wrong; say why where this is set.
  std::set<std::string> any_value = {};
};

inline std::string RefusalOf(const KeyWalk& walk, const nlohmann::json& file) {
  try {
    walk.read(file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Refused keys are refused by name and let their neutral values through; harmless keys change
// nothing, whatever they say; keys that are read refuse a value of a wrong type by name; each rule
// but of a key that is read says why; no key has two.
inline void WalkKeys(const KeyWalk& walk) {
  using Kind = formats::KeyRule::Kind;
  using nlohmann::json;
  const std::string before = walk.read(walk.valid);
  ASSERT_FALSE(before.empty());
  const auto with = [&](const std::string& key, const json& value) {
    json file = walk.valid;
    if (const auto more = walk.beside.find(key); more != walk.beside.end()) {
      file.update(more->second);
    }
    file[key] = value;
    return file;
  };
  std::set<std::string> keys;
  for (const formats::KeyRule& rule : walk.rules) {
    std::string key(rule.key);
    SCOPED_TRACE("key " + key);
    EXPECT_TRUE(keys.insert(key).second) << "has two rules";
    for (char& c : key) {
      if (c == '*' || c == '?') c = 'x';
    }
    switch (rule.kind) {
      case Kind::kRefused: {
        EXPECT_FALSE(rule.why.empty());
        EXPECT_THAT(RefusalOf(walk, with(key, "of no use")), testing::HasSubstr(key));
        EXPECT_EQ(RefusalOf(walk, with(key, nullptr)), "");
        if (rule.neutral.empty()) break;
        EXPECT_EQ(RefusalOf(walk, with(key, json::parse(rule.neutral))), "");
        break;
      }
      case Kind::kHarmless:
        EXPECT_FALSE(rule.why.empty());
        for (const json& value : {json("of no use"), json(3), json(true), json::array({1, 2})}) {
          EXPECT_EQ(walk.read(with(key, value)), before) << value;
        }
        break;
      case Kind::kRead: {
        if (walk.any_value.contains(key)) break;
        const bool refused =
            testing::Value(RefusalOf(walk, with(key, {{"of no", "use"}})),
                           testing::HasSubstr(key)) ||
            testing::Value(RefusalOf(walk, with(key, -7.5)), testing::HasSubstr(key));
        EXPECT_TRUE(refused) << "is not read: an object and -7.5 are both taken";
        break;
      }
    }
  }
  if (walk.refuses_unknown) {
    EXPECT_THAT(RefusalOf(walk, with("of_no_use", 1)), testing::HasSubstr("of_no_use"));
  } else {
    EXPECT_EQ(walk.read(with("of_no_use", 1)), before);
  }
}

}  // namespace plimsoll
