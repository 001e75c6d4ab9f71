// The table itself, and the JSON schema made of it.

#include "trainer/config/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "trainer/config/json_schema.h"
#include "trainer/config/suggest.h"

namespace plimsoll::config {
namespace {

// A value of the key's type that is not its default.
Value Another(const Key& key) {
  switch (key.type) {
    case Type::kBool: {
      const bool* const known = std::get_if<bool>(&key.default_value);
      return known == nullptr || !*known;
    }
    case Type::kInt:
      return int64_t{12345};
    case Type::kFloat:
      return 0.12345;
    case Type::kString:
    case Type::kFolderOrBool:
      return std::string("another");
    case Type::kAutoOrBool:
      return std::string("auto");
    case Type::kEnum:
      return key.choices.back();
    case Type::kPair:
      return std::array<double, 2>{0.1, 0.2};
    case Type::kStringList:
      return std::vector<std::string>{"another"};
    case Type::kFloatList:
      return std::vector<double>{0.25, 0.5};
    case Type::kMemorySize:
      return MemorySize{MemorySize::Base::kAbsolute, 1.0, 12345};
    case Type::kAutoOrInt:
      return int64_t{12345};
    case Type::kWeightDecayGroups:
      return std::vector<WeightDecayGroup>{{"x", 0.1}};
    case Type::kTrainSources:
      return std::vector<TrainSource>{{{"x", "y*"}, 2.5}, {{"z"}}};
  }
  return {};
}

TEST(Schema, PathsAreUniqueAndInSections) {
  std::set<std::string> paths;
  for (const Key& key : Schema()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_TRUE(key.Section().empty() || IsSection(key.Section())) << key.path;
    EXPECT_EQ(FindKey(key.path), &key);
    EXPECT_GT(key.doc.size(), 5u) << key.path;
    EXPECT_EQ(key.doc.back(), '.') << key.path;
    EXPECT_EQ(key.doc.find('|'), std::string::npos)
        << key.path << ": breaks the table of the reference";
  }
  EXPECT_EQ(FindKey("model"), nullptr);
}

// A row with the wrong field would change another key, or fail to change its own.
TEST(Schema, EveryKeyHasItsOwnField) {
  for (const Key& key : Schema()) {
    RunConfig config;
    const Value value = Another(key);
    key.set(config, value);
    for (const Key& other : Schema()) {
      const bool changed = other.get(config) != other.default_value;
      const bool expected = &other == &key && value != key.default_value;
      EXPECT_EQ(changed, expected) << "setting " << key.path << " on " << other.path;
    }
    EXPECT_EQ(key.get(config), value) << key.path;
  }
}

// The text printed for a key's value reads back as the same value; this includes every default.
TEST(Schema, ValuesPrintAndParse) {
  for (const Key& key : Schema()) {
    for (const Value& value : {key.default_value, Another(key)}) {
      const std::string text = ToText(key.type, value);
      if (text.empty()) continue;  // not set
      EXPECT_EQ(ParseValue(key.type, key.path, ParseYaml(text, "text")), value)
          << key.path << ": " << text;
    }
  }
}

// Defaults are in range and refer only to existing things.
TEST(Schema, DefaultsAreAllowed) {
  for (const Key& key : Schema()) {
    const std::string text = ToText(key.type, key.default_value);
    if (text.empty() || !key.derived.empty()) continue;
    EXPECT_NO_THROW(ParseKey(key, ParseYaml(text, "default"))) << key.path;
  }
}

// The lines that open a key's maps appear once.
TEST(Schema, KeysAreWrittenInTheirMaps) {
  const Key &dtype = *FindKey("amp.dtype"), &recipe = *FindKey("amp.fp8.recipe"),
            &skip = *FindKey("amp.fp8.skip"), &device = *FindKey("device");
  const auto lines = [](const Key& key, const Key* before) {
    const KeyLines lines = LinesOf(key, before);
    return lines.opening + lines.indent + lines.name;
  };
  EXPECT_EQ(lines(device, &dtype), "device");
  EXPECT_EQ(lines(dtype, &device), "amp:\n  dtype");
  EXPECT_EQ(lines(recipe, &dtype), "  fp8:\n    recipe");
  EXPECT_EQ(lines(skip, &recipe), "    skip");
  EXPECT_EQ(lines(skip, nullptr), "amp:\n  fp8:\n    skip");
  EXPECT_EQ(recipe.Words(), (std::vector<std::string>{"amp", "fp8", "recipe"}));
  EXPECT_TRUE(IsNestedMap("amp.fp8"));
  for (const char* path : {"amp", "amp.fp", "amp.fp8.recipe", ""}) EXPECT_FALSE(IsNestedMap(path));
}

TEST(Schema, ConditionsNameKeysAndValues) {
  for (const Key& key : Schema()) {
    if (key.when_key.empty()) continue;
    const Key* by = FindKey(key.when_key);
    ASSERT_NE(by, nullptr) << key.path;
    for (const std::string& value : key.when_values) {
      EXPECT_EQ(std::count(by->choices.begin(), by->choices.end(), value), 1)
          << key.path << " when " << value;
    }
  }
}

// Any key with one wrong letter is still found. Of sample.top_k and sample.top_p, which only that
// letter tells apart, either is near.
TEST(Suggest, FindsEveryKey) {
  for (const Key& key : Schema()) {
    if (key.Name().size() < 3) continue;
    std::string typo = key.path;
    typo.back() = typo.back() == 'q' ? 'z' : 'q';
    std::string nearest = NearestKey(typo);
    if (nearest.starts_with("sample.top_")) nearest.back() = key.path.back();
    EXPECT_EQ(nearest, key.path) << typo;
  }
  EXPECT_EQ(NearestKey("train.completely_unrelated"), "");
  EXPECT_EQ(NearestKey(std::string(100000, 'x')), "");
}

TEST(JsonSchema, HasEveryKeyAndNoOther) {
  const nlohmann::json schema = nlohmann::json::parse(JsonSchema());
  EXPECT_EQ(schema["additionalProperties"], false);
  size_t keys = 0;
  for (const Key& key : Schema()) {
    nlohmann::json entry = schema;
    for (const std::string& word : key.Words()) {
      ASSERT_TRUE(entry.at("properties").contains(word)) << key.path;
      entry = nlohmann::json(entry.at("properties").at(word));
    }
    EXPECT_EQ(entry["description"], key.doc);
  }
  for (const auto& [name, section] : schema["properties"].items()) {
    if (!section.contains("properties")) continue;
    EXPECT_EQ(section["additionalProperties"], false) << name;
    for (const auto& [key, entry] : section["properties"].items()) {
      if (!entry.contains("properties")) {
        ++keys;
        continue;
      }
      EXPECT_EQ(entry["additionalProperties"], false) << name << "." << key;
      keys += entry["properties"].size();
    }
  }
  EXPECT_EQ(keys + 1, Schema().size());  // device stands at the top
  const auto& lr = schema["properties"]["optimizer"]["properties"]["lr"];
  EXPECT_EQ(lr["anyOf"][0],
            (nlohmann::json{{"type", "number"}, {"minimum", 0.0}, {"maximum", 1000.0}}));
  EXPECT_EQ(lr["default"], 3e-4);
  const auto& data = schema["properties"]["parallel"]["properties"]["data"]["anyOf"][0]["anyOf"];
  EXPECT_EQ(data[0]["const"], "auto");
  EXPECT_EQ(data[1]["type"], "integer");
  EXPECT_EQ(schema["properties"]["parallel"]["pattern"], "^auto$");
  EXPECT_FALSE(schema["properties"]["memory"].contains("pattern"));
}

}  // namespace
}  // namespace plimsoll::config
