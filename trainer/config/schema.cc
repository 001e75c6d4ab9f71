#include "trainer/config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/spelling.h"

namespace plimsoll::config {
namespace {

std::string Number(double value) {
  const bool whole = std::abs(value) < 0x1p63 && value == std::floor(value);
  return whole ? fmt::format("{}", static_cast<int64_t>(value)) : fmt::format("{}", value);
}

void CheckRange(const Key& key, double number, const std::string& text, const std::string& origin) {
  const bool low = key.above_min ? number <= key.min : number < key.min;
  const bool high = key.below_max ? number >= key.max : number > key.max;
  if (!low && !high) return;
  throw UserError(fmt::format("{}: {}: {} is out of range; it must be {}", origin, key.path, text,
                              RangeText(key)));
}

// Programs compute with float32 numbers. Refuses a number that would become 0 or infinite in
// float32, or would round to a limit that is out of range.
void CheckFloat32(const Key& key, double number, const std::string& origin) {
  using Float32 = std::numeric_limits<float>;
  const double size = std::abs(number);
  const auto refuse = [&](const std::string& why) {
    throw UserError(fmt::format("{}: {}: {} {}", origin, key.path, Number(number), why));
  };
  if (size > 0 && size < Float32::min()) {
    const bool may_be_0 = key.min < 0 || (key.min == 0 && !key.above_min);
    refuse(fmt::format("is too small for float32; it must be {}at least {}",
                       may_be_0 ? "0, or " : "", Float32::min()));
  }
  if (size > Float32::max()) {
    refuse(fmt::format("is too large for float32; it must be at most {}", Float32::max()));
  }
  const auto used = static_cast<float>(number);
  const bool low = key.above_min && used <= key.min, high = key.below_max && used >= key.max;
  if (low || high) {
    refuse(fmt::format("is {} in float32; it must be {}", Number(used), RangeText(key)));
  }
}

void CheckNumber(const Key& key, double number, const std::string& origin) {
  CheckRange(key, number, Number(number), origin);
  CheckFloat32(key, number, origin);
}

void CheckRange(const Key& key, const Value& value, const std::string& origin) {
  if (const auto* integer = std::get_if<int64_t>(&value))
    CheckRange(key, static_cast<double>(*integer), fmt::format("{}", *integer), origin);
  if (const auto* number = std::get_if<double>(&value)) CheckNumber(key, *number, origin);
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value)) {
    for (const double number : *pair) CheckNumber(key, number, origin);
  }
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    for (const double number : *numbers) CheckNumber(key, number, origin);
  }
  if (const auto* groups = std::get_if<std::vector<WeightDecayGroup>>(&value)) {
    for (const WeightDecayGroup& group : *groups) CheckNumber(key, group.weight_decay, origin);
  }
}

// Names of choices in other tools, and their names here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}, {"float32", "fp32"},
    {"float", "fp32"},    {"adam", "adamw"},   {"gpu", "cuda"},  {"gemma3", "gemma3_text"}};

void CheckChoice(const Key& key, const std::string& text, const std::string& origin) {
  const auto offers = [&](std::string_view choice) {
    return std::find(key.choices.begin(), key.choices.end(), choice) != key.choices.end();
  };
  if (offers(text)) return;
  std::string nearest = NearestName(text, key.choices);
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (text == elsewhere && offers(here)) nearest = here;
  }
  throw UserError(fmt::format("{}: {}: {} is not one of {}{}", origin, key.path, Quote(text),
                              fmt::join(key.choices, ", "),
                              nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

}  // namespace

std::string RangeText(const Key& key) {
  const bool has_min = std::isfinite(key.min);
  const bool has_max = std::isfinite(key.max);
  if (has_min && has_max && !key.above_min && !key.below_max) {
    return fmt::format("between {} and {}", Number(key.min), Number(key.max));
  }
  std::string text;
  if (has_min) text = fmt::format("{} {}", key.above_min ? "above" : "at least", Number(key.min));
  if (has_max) {
    text += fmt::format("{}{} {}", has_min ? " and " : "", key.below_max ? "below" : "at most",
                        Number(key.max));
  }
  return text;
}

std::string Key::Section() const {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string Key::Name() const {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::vector<std::string> Key::Words() const {
  std::vector<std::string> words = {""};
  for (const char c : path) {
    if (c == '.') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

bool Key::Applies(const RunConfig& config) const {
  if (!config.model.init_from.empty() && Section() == "model") {
    if (path == "model.family") return false;
    if (!owners.empty()) {
      // The model's settings are known only after the folder is read.
      const bool known = config.model.followed_init_from;
      return with_loaded_weights == Setting::WithLoadedWeights::kYes &&
             (!known || config.model.settings.Has(Name()));
    }
  } else if (!owners.empty()) {
    const std::string& owner = Section() == "model" ? config.model.family : config.data.source;
    if (std::find(owners.begin(), owners.end(), owner) == owners.end()) return false;
  }
  if (when_key.empty()) return true;
  const std::string value = std::get<std::string>(FindKey(when_key)->get(config));
  return std::find(when_values.begin(), when_values.end(), value) != when_values.end();
}

std::string Key::Text(const RunConfig& config) const { return ToText(type, get(config)); }

void Key::SetText(RunConfig& config, const std::string& text) const {
  Tree tree;
  tree.kind = Tree::Kind::kScalar;
  tree.origin = config.Origin(path);
  tree.text = text;
  set(config, ParseKey(*this, tree));
}

const Key* FindKey(const std::string& path) {
  static const std::map<std::string, const Key*> index = [] {
    std::map<std::string, const Key*> keys;
    for (const Key& key : Schema()) keys[key.path] = &key;
    return keys;
  }();
  const auto found = index.find(path);
  return found == index.end() ? nullptr : found->second;
}

std::optional<ObjectiveKey> FindObjectiveKey(const std::string& path) {
  const std::string start = std::string(kObjectives) + ".";
  if (!path.starts_with(start)) return std::nullopt;
  const size_t dot = path.find('.', start.size());
  if (dot == std::string::npos || dot == start.size()) return std::nullopt;
  const Key* const key = FindKey(path.substr(dot + 1));
  if (key == nullptr || (key->Section() != "optimizer" && key->Section() != "schedule")) {
    return std::nullopt;
  }
  return ObjectiveKey{path.substr(start.size(), dot - start.size()), key};
}

const Key* FindMeantKey(const std::string& path) {
  const std::optional<ObjectiveKey> own = FindObjectiveKey(path);
  return own ? own->key : FindKey(path);
}

bool IsSection(const std::string& name) {
  return std::ranges::find(Sections(), name, &SectionInfo::name) != Sections().end();
}

bool IsNestedMap(const std::string& path) {
  if (path.find('.') == std::string::npos) return false;
  return std::ranges::any_of(Schema(),
                             [&](const Key& key) { return key.path.starts_with(path + "."); });
}

bool MayBeAuto(const std::string& section) {
  const auto found = std::ranges::find(Sections(), section, &SectionInfo::name);
  return found != Sections().end() && found->may_be_auto;
}

KeyLines LinesOf(const Key& key, const Key* before) {
  KeyLines lines;
  std::vector<std::string> maps = key.Words();
  lines.name = maps.back();
  maps.pop_back();
  std::string path;
  for (const std::string& map : maps) {
    path += map + ".";
    if (before == nullptr || !before->path.starts_with(path)) {
      lines.opening += fmt::format("{}{}:\n", lines.indent, map);
    }
    lines.indent += "  ";
  }
  return lines;
}

UserError Missing(const RunConfig& config, const std::string& key, const std::string& way_out) {
  return UserError(fmt::format("{}: {}: missing; {}", config.PlaceFor(key), key, way_out));
}

std::string GivenAt(const RunConfig& config, const std::string& key) {
  return config.IsSet(key) ? fmt::format(" ({})", config.Origin(key)) : "";
}

UserError WithPlace(const RunConfig& config, const UserError& error) {
  const std::string message = error.what();
  const std::string key = message.substr(0, message.find_first_of(":[ "));
  if (FindKey(key) == nullptr) return error;
  return UserError(config.Origin(key) + ": " + message, error.code());
}

Value ParseKey(const Key& key, const Tree& tree) {
  Value value = ParseValue(key.type, key.path, tree);
  if (auto* const word = std::get_if<std::string>(&value)) {
    if (const auto found = key.also.find(*word); found != key.also.end()) *word = found->second;
  }
  if (key.type == Type::kEnum) CheckChoice(key, std::get<std::string>(value), tree.origin);
  CheckRange(key, value, tree.origin);
  return value;
}

}  // namespace plimsoll::config
