#include "trainer/config/json_schema.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

using Json = nlohmann::ordered_json;

Json NumberSchema(const Key& key, const char* type) {
  Json schema = {{"type", type}};
  const bool whole = std::string(type) == "integer";
  const auto bound = [&](const char* name, double value) {
    if (!std::isfinite(value)) return;
    if (whole) {
      schema[name] = static_cast<int64_t>(value);
    } else {
      schema[name] = value;
    }
  };
  bound(key.above_min ? "exclusiveMinimum" : "minimum", key.min);
  bound(key.below_max ? "exclusiveMaximum" : "maximum", key.max);
  return schema;
}

Json EnumSchema(const Key& key) {
  Json words = key.choices;
  for (const auto& [word, choice] : key.also) {
    words.push_back(word == "true" || word == "false" ? Json(word == "true") : Json(word));
  }
  return {{"enum", words}};
}

Json TypeSchema(const Key& key) {
  const Json string = {{"type", "string"}};
  switch (key.type) {
    case Type::kBool:
      return {{"type", "boolean"}};
    case Type::kInt:
      return NumberSchema(key, "integer");
    case Type::kFloat:
      return NumberSchema(key, "number");
    case Type::kString:
      return {{"type", {"string", "number", "boolean"}}};
    case Type::kEnum:
      return EnumSchema(key);
    case Type::kPair:
      return {{"type", "array"},
              {"items", NumberSchema(key, "number")},
              {"minItems", 2},
              {"maxItems", 2}};
    case Type::kStringList:
      return {{"anyOf", {string, {{"type", "array"}, {"items", string}}}}};
    case Type::kFloatList: {
      const Json number = NumberSchema(key, "number");
      return {{"anyOf", {number, {{"type", "array"}, {"items", number}}}}};
    }
    case Type::kMemorySize:
      return {{"type", {"string", "integer"}}};
    case Type::kAutoOrInt:
      return {{"anyOf", {{{"const", "auto"}}, NumberSchema(key, "integer")}}};
    case Type::kAutoOrBool:
      return {{"enum", {true, false, "auto"}}};
    case Type::kFolderOrBool:
      return {{"type", {"string", "boolean"}}};
    case Type::kWeightDecayGroups: {
      const Json properties = {{"pattern", string},
                               {"weight_decay", {{"type", "number"}, {"minimum", 0}}}};
      const Json group = {{"type", "object"},
                          {"properties", properties},
                          {"required", {"pattern", "weight_decay"}},
                          {"additionalProperties", false}};
      return {{"type", "array"}, {"items", group}};
    }
    case Type::kTrainSources: {
      const Json files = {{"anyOf", {string, {{"type", "array"}, {"items", string}}}}};
      const Json weight = {{"type", "number"}, {"minimum", 1e-6}, {"maximum", 1e6}};
      const Json source = {{"type", "object"},
                           {"properties", {{"files", files}, {"weight", weight}}},
                           {"required", {"files"}},
                           {"additionalProperties", false}};
      return {{"anyOf",
               {string,
                {{"type", "array"}, {"items", string}},
                {{"type", "array"}, {"items", source}}}}};
    }
  }
  return {};
}

Json KeySchema(const Key& key) {
  // null resets a value, and any value may be an environment variable.
  const Json variable = {{"type", "string"}, {"pattern", "\\$\\{"}};
  Json schema = {{"description", key.doc}};
  schema["anyOf"] = Json::array({TypeSchema(key), variable, {{"type", "null"}}});
  if (key.derived.empty() && (key.type == Type::kEnum))
    schema["default"] = std::get<std::string>(key.default_value);
  if (key.derived.empty()) {
    if (const auto* value = std::get_if<bool>(&key.default_value)) schema["default"] = *value;
    if (const auto* value = std::get_if<int64_t>(&key.default_value)) schema["default"] = *value;
    if (const auto* value = std::get_if<double>(&key.default_value)) schema["default"] = *value;
  }
  return schema;
}

// The properties in the schema that contain the key, within those of its section.
Json& PropertiesOf(const Key& key, Json& section) {
  const std::vector<std::string> words = key.Words();
  Json* properties = &section;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    Json& map = (*properties)[words[i]];
    if (map.is_null()) {
      map = {{"type", {"object", "null"}},
             {"properties", Json::object()},
             {"additionalProperties", false}};
    }
    properties = &map["properties"];
  }
  return *properties;
}

Json SectionSchema(const SectionInfo& section) {
  Json keys = Json::object();
  for (const Key& key : Schema()) {
    if (key.Section() == section.name) PropertiesOf(key, keys)[key.Words().back()] = KeySchema(key);
  }
  Json schema = {{"description", section.doc},
                 {"type", {"object", "null"}},
                 {"properties", keys},
                 {"additionalProperties", false}};
  if (section.may_be_auto) {
    schema["type"].push_back("string");
    schema["pattern"] = "^auto$";
  }
  return schema;
}

Json ObjectivesSchema() {
  Json parts = Json::object();
  std::string doc;
  for (const SectionInfo& section : Sections()) {
    if (section.name == "optimizer" || section.name == "schedule") {
      parts[section.name] = SectionSchema(section);
    }
    if (section.name == kObjectives) doc = section.doc;
  }
  const Json objective = {
      {"type", "object"}, {"properties", parts}, {"additionalProperties", false}};
  return {{"description", doc}, {"type", {"object", "null"}}, {"additionalProperties", objective}};
}

}  // namespace

std::string JsonSchema() {
  Json properties;
  const Json string = {{"type", "string"}};
  properties["extends"] = {{"description", "Files this one is put on top of."},
                           {"anyOf", {string, {{"type", "array"}, {"items", string}}}}};
  for (const SectionInfo& section : Sections()) {
    if (section.name == kObjectives) continue;
    properties[section.name] = SectionSchema(section);
  }
  properties[kObjectives] = ObjectivesSchema();
  for (const Key& key : Schema()) {
    if (key.Section().empty()) properties[key.path] = KeySchema(key);
  }
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Plimsoll run configuration"},
                       {"type", "object"},
                       {"properties", properties},
                       {"additionalProperties", false}};
  return schema.dump(2) + "\n";
}

}  // namespace plimsoll::config
