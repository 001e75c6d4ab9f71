// A strict JSON reader for files written by other programs: config.json, expected.json, index
// files, headers. Syntax errors, duplicate keys, missing keys, wrong types and values out of range
// are one-line UserErrors that name the file and the key.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::formats {

// Makes text fit for a one-line message: control characters are escaped, long text is cut.
std::string Printable(std::string_view text);

// Parses a JSON document. Every message begins with `where`. In addition to syntax errors, refuses
// duplicate keys, nesting deeper than 64 levels, and numbers beyond the range of a double.
nlohmann::json ParseJson(std::string_view text, const std::string& where);

// Parses a JSON file.
nlohmann::json ReadJson(const std::string& path);

// A JSON object whose members are read by key. Nested objects know their path, so messages name
// "rope_scaling.factor". A member whose value is null counts as absent, as in Hugging Face's files.
// Cheap to copy.
class JsonObject {
 public:
  static constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

  static JsonObject FromFile(const std::string& path);
  static JsonObject FromText(std::string_view text, const std::string& where);

  bool Has(const std::string& key) const;
  std::vector<std::string> Keys() const;

  // Require: an absent key is an error. Get: an absent key gives `fallback`.
  // Integers must lie in [min, max]; 12.0 counts as the integer 12, 12.5 is an error.
  int64_t RequireInt(const std::string& key, int64_t min = kMinInt, int64_t max = kMaxInt) const;
  int64_t GetInt(const std::string& key, int64_t fallback, int64_t min = kMinInt,
                 int64_t max = kMaxInt) const;
  double RequireFloat(const std::string& key) const;
  double GetFloat(const std::string& key, double fallback) const;
  bool RequireBool(const std::string& key) const;
  bool GetBool(const std::string& key, bool fallback) const;
  std::string RequireString(const std::string& key) const;
  std::string GetString(const std::string& key, const std::string& fallback) const;
  std::vector<double> RequireFloats(const std::string& key) const;
  std::vector<int64_t> RequireInts(const std::string& key, int64_t min = kMinInt,
                                   int64_t max = kMaxInt) const;
  std::vector<std::string> RequireStrings(const std::string& key) const;
  JsonObject RequireObject(const std::string& key) const;
  std::vector<JsonObject> RequireObjects(const std::string& key) const;  // an array of objects

  // The place of a key in messages: "config.json: rope_scaling.factor".
  std::string PlaceOf(const std::string& key) const;
  // Throws a UserError that begins with PlaceOf(key).
  [[noreturn]] void Fail(const std::string& key, const std::string& reason) const;

  const nlohmann::json& json() const { return *value_; }

 private:
  JsonObject(std::shared_ptr<const nlohmann::json> value, std::string where, std::string prefix);

  const nlohmann::json* FindMember(const std::string& key) const;  // null when absent
  const nlohmann::json& Member(const std::string& key) const;
  const nlohmann::json& Array(const std::string& key) const;
  JsonObject Nested(const nlohmann::json& value, const std::string& key) const;

  std::shared_ptr<const nlohmann::json> value_;  // shares ownership of the complete document
  std::string where_;                            // the file's name
  std::string prefix_;                           // path of this object, "" or "a.b."
};

}  // namespace plimsoll::formats
