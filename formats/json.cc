#include "formats/json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"

namespace plimsoll::formats {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxPrintable = 160;
constexpr size_t kMaxDepth = 64;

// Describes the value found in place of the expected one: "an object", "12.5", ….
std::string Describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::optional<int64_t> AsInt(const Json& value) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(JsonObject::kMaxInt)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= -kTwoTo63 && number < kTwoTo63) || number != std::floor(number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

std::string ExpectedInt(int64_t min, int64_t max) {
  if (min == JsonObject::kMinInt && max == JsonObject::kMaxInt) return "an integer";
  if (max == JsonObject::kMaxInt) return fmt::format("an integer of at least {}", min);
  if (min == JsonObject::kMinInt) return fmt::format("an integer of at most {}", max);
  return fmt::format("an integer from {} to {}", min, max);
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxPrintable)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  if (text.size() > kMaxPrintable) out += "...";
  return out;
}

Json ParseJson(std::string_view text, const std::string& where) {
  // Holds a set of keys for each open object, and an empty set for each open array.
  std::vector<std::unordered_set<std::string>> open;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (open.size() == kMaxDepth) {
          throw UserError(
              fmt::format("{}: nested deeper than {} levels; no file of this kind needs more",
                          where, kMaxDepth));
        }
        open.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        open.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!open.back().insert(parsed.get<std::string>()).second) {
          throw UserError(fmt::format("{}: key \"{}\" appears twice in one object; keep one", where,
                                      Printable(parsed.get<std::string>())));
        }
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    std::string_view reason = error.what();  // "[json.exception.parse_error.101] parse error at …"
    if (const size_t end = reason.find("] "); end != reason.npos) reason.remove_prefix(end + 2);
    throw UserError(fmt::format("{}: not valid JSON: {}", where, Printable(reason)));
  }
}

Json ReadJson(const std::string& path) { return ParseJson(MappedFile(path).text(), path); }

JsonObject JsonObject::FromFile(const std::string& path) {
  return JsonObject(std::make_shared<const Json>(ReadJson(path)), path, "");
}

JsonObject JsonObject::FromText(std::string_view text, const std::string& where) {
  return JsonObject(std::make_shared<const Json>(ParseJson(text, where)), where, "");
}

JsonObject::JsonObject(std::shared_ptr<const Json> value, std::string where, std::string prefix)
    : value_(std::move(value)), where_(std::move(where)), prefix_(std::move(prefix)) {
  if (!value_->is_object()) {
    throw UserError(fmt::format("{}: expected a JSON object, found {}", where_, Describe(*value_)));
  }
}

std::string JsonObject::PlaceOf(const std::string& key) const {
  return fmt::format("{}: {}{}", where_, prefix_, Printable(key));
}

void JsonObject::Fail(const std::string& key, const std::string& reason) const {
  throw UserError(fmt::format("{}: {}", PlaceOf(key), reason));
}

const Json* JsonObject::FindMember(const std::string& key) const {
  const auto member = value_->find(key);
  return member == value_->end() || member->is_null() ? nullptr : &*member;
}

const Json& JsonObject::Member(const std::string& key) const {
  const Json* member = FindMember(key);
  if (member == nullptr) Fail(key, "this key is required");
  return *member;
}

const Json& JsonObject::Array(const std::string& key) const {
  const Json& value = Member(key);
  if (!value.is_array()) Fail(key, fmt::format("expected an array, found {}", Describe(value)));
  return value;
}

JsonObject JsonObject::Nested(const Json& value, const std::string& key) const {
  if (!value.is_object()) Fail(key, fmt::format("expected an object, found {}", Describe(value)));
  return JsonObject(std::shared_ptr<const Json>(value_, &value), where_, prefix_ + key + ".");
}

bool JsonObject::Has(const std::string& key) const { return FindMember(key) != nullptr; }

std::vector<std::string> JsonObject::Keys() const {
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) keys.push_back(item.key());
  return keys;
}

int64_t JsonObject::RequireInt(const std::string& key, int64_t min, int64_t max) const {
  const Json& value = Member(key);
  const std::optional<int64_t> number = AsInt(value);
  if (!number || *number < min || *number > max) {
    Fail(key, fmt::format("expected {}, found {}", ExpectedInt(min, max), Describe(value)));
  }
  return *number;
}

int64_t JsonObject::GetInt(const std::string& key, int64_t fallback, int64_t min,
                           int64_t max) const {
  return Has(key) ? RequireInt(key, min, max) : fallback;
}

double JsonObject::RequireFloat(const std::string& key) const {
  const Json& value = Member(key);
  if (!value.is_number()) Fail(key, fmt::format("expected a number, found {}", Describe(value)));
  return value.get<double>();
}

double JsonObject::GetFloat(const std::string& key, double fallback) const {
  return Has(key) ? RequireFloat(key) : fallback;
}

bool JsonObject::RequireBool(const std::string& key) const {
  const Json& value = Member(key);
  if (!value.is_boolean()) {
    Fail(key, fmt::format("expected true or false, found {}", Describe(value)));
  }
  return value.get<bool>();
}

bool JsonObject::GetBool(const std::string& key, bool fallback) const {
  return Has(key) ? RequireBool(key) : fallback;
}

std::string JsonObject::RequireString(const std::string& key) const {
  const Json& value = Member(key);
  if (!value.is_string()) Fail(key, fmt::format("expected a string, found {}", Describe(value)));
  return value.get<std::string>();
}

std::string JsonObject::GetString(const std::string& key, const std::string& fallback) const {
  return Has(key) ? RequireString(key) : fallback;
}

std::vector<double> JsonObject::RequireFloats(const std::string& key) const {
  std::vector<double> numbers;
  for (const Json& value : Array(key)) {
    if (!value.is_number()) {
      Fail(key,
           fmt::format("element {}: expected a number, found {}", numbers.size(), Describe(value)));
    }
    numbers.push_back(value.get<double>());
  }
  return numbers;
}

std::vector<int64_t> JsonObject::RequireInts(const std::string& key, int64_t min,
                                             int64_t max) const {
  std::vector<int64_t> numbers;
  for (const Json& value : Array(key)) {
    const std::optional<int64_t> number = AsInt(value);
    if (!number || *number < min || *number > max) {
      Fail(key, fmt::format("element {}: expected {}, found {}", numbers.size(),
                            ExpectedInt(min, max), Describe(value)));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::string> JsonObject::RequireStrings(const std::string& key) const {
  std::vector<std::string> strings;
  for (const Json& value : Array(key)) {
    if (!value.is_string()) {
      Fail(key,
           fmt::format("element {}: expected a string, found {}", strings.size(), Describe(value)));
    }
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

JsonObject JsonObject::RequireObject(const std::string& key) const {
  return Nested(Member(key), key);
}

std::vector<JsonObject> JsonObject::RequireObjects(const std::string& key) const {
  std::vector<JsonObject> objects;
  for (const Json& value : Array(key)) {
    objects.push_back(Nested(value, fmt::format("{}[{}]", key, objects.size())));
  }
  return objects;
}

}  // namespace plimsoll::formats
