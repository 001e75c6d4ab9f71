#include "trainer/data/labelled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "formats/compression.h"
#include "formats/json.h"
#include "trainer/data/documents.h"
#include "trainer/data/examples.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostClasses = 1'000'000;  // names of classes are a table

LabelledText ParseLine(std::string_view line, const std::string& where) {
  const formats::JsonObject object = formats::JsonObject::FromText(line, where);
  LabelledText text = {.text = object.RequireString("text"),
                       .pair = std::nullopt,
                       .label = "",
                       .numbered = false,
                       .where = where};
  if (object.Has("text_pair")) text.pair = object.RequireString("text_pair");
  if (!object.Has("label")) object.Fail("label", "is missing; give a class's name or number");
  const nlohmann::json& label = object.json().at("label");
  if (label.is_string()) {
    text.label = label.get<std::string>();
    if (text.label.empty()) object.Fail("label", "is empty; give a class's name or number");
  } else if (label.is_number_integer()) {
    text.numbered = true;
    text.label = std::to_string(object.RequireInt("label", 0, kMostClasses - 1));
  } else {
    object.Fail("label", "is neither a string nor an integer; give a class's name or number");
  }
  return text;
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f") == text.npos; }

}  // namespace

std::vector<LabelledText> ReadLabelledLines(const std::vector<MappedFile>& files) {
  std::vector<LabelledText> texts;
  for (const MappedFile& file : files) {
    if (IsBlank(file.text())) throw UserError(file.path() + ": is empty; give it a line a text");
    ForEachLine(file, [&](std::string_view line, const std::string& where) {
      texts.push_back(ParseLine(line, where));
    });
  }
  return texts;
}

std::vector<LabelledText> LabelByFile(const std::vector<MappedFile>& files,
                                      const std::string& delimiter) {
  std::vector<LabelledText> texts;
  for (const MappedFile& file : files) {
    const size_t before = texts.size();
    const std::filesystem::path path = formats::WithoutCompression(file.path());
    ForEachDocument(file, delimiter, [&](std::string_view document) {
      if (IsBlank(document)) return;
      texts.push_back({.text = std::string(document),
                       .pair = std::nullopt,
                       .label = path.stem().string(),
                       .numbered = false,
                       .where = file.path()});
    });
    if (texts.size() > before) continue;
    throw UserError(file.path() + ": holds no text; leave it out (data.exclude)");
  }
  return texts;
}

int32_t LabelClasses::Of(const LabelledText& text, int64_t most) const {
  int64_t number = 0;
  if (text.numbered) {
    number = std::stoll(text.label);
    if (number >= std::ssize(names)) {
      throw UserError(fmt::format("{}: label {} is none of the {} classes, 0 to {}", text.where,
                                  number, names.size(), names.size() - 1));
    }
  } else {
    const auto found = std::ranges::find(names, text.label);
    if (found == names.end()) {
      throw UserError(
          fmt::format("{}: label '{}' is none of the {} classes of data.label_names or data.train",
                      text.where, formats::Printable(text.label), names.size()));
    }
    number = found - names.begin();
  }
  if (most == 0 || number < most) return static_cast<int32_t>(number);
  throw UserError(
      fmt::format("{}: label '{}' is class {}, but the model has {}, from 0 on; set "
                  "model.classes to {}",
                  text.where, formats::Printable(text.label), number, most, names.size()));
}

LabelClasses ClassesOf(const std::vector<LabelledText>& texts,
                       const std::vector<std::string>& given) {
  const bool numbered = !texts.empty() && texts.front().numbered;
  std::set<std::string> names;
  int64_t count = 0;
  for (const LabelledText& text : texts) {
    if (text.numbered != numbered) {
      throw UserError(fmt::format("{}: label '{}' is a {}, and that of {} is a {}; give one kind",
                                  text.where, formats::Printable(text.label),
                                  text.numbered ? "number" : "name", texts.front().where,
                                  numbered ? "number" : "name"));
    }
    if (numbered) {
      count = std::max<int64_t>(count, std::stoll(text.label) + 1);
    } else {
      names.insert(text.label);
    }
  }
  if (!given.empty()) return {given};
  LabelClasses classes = {{names.begin(), names.end()}};
  for (int64_t i = 0; i < count; ++i) classes.names.push_back(std::to_string(i));
  return classes;
}

LabelledSplit SplitByClass(std::vector<LabelledText> texts, double fraction, uint64_t seed) {
  std::map<std::string, std::vector<size_t>> by_class;
  for (size_t i = 0; i < texts.size(); ++i) by_class[texts[i].label].push_back(i);
  std::vector<bool> is_held_out(texts.size());
  size_t held_out = 0;
  uint64_t number = 0;
  for (const auto& [label, members] : by_class) {
    const size_t count = members.size();
    const auto wanted = static_cast<size_t>(std::llround(static_cast<double>(count) * fraction));
    const Permutation order(count, Hash(seed, number++));
    for (size_t i = 0; i < std::min(wanted, count - 1); ++i) {
      is_held_out[members[order(i)]] = true;
      ++held_out;
    }
  }
  if (held_out == 0) {
    throw UserError(
        fmt::format("data.eval_fraction: {} of {} texts in {} classes holds out none; give more "
                    "texts or a larger fraction",
                    fraction, texts.size(), by_class.size()));
  }
  // Evaluations may read only the first ones: they are shuffled.
  LabelledSplit split;
  const Permutation order(texts.size(), seed);
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t text = order(i);
    (is_held_out[text] ? split.eval : split.train).push_back(std::move(texts[text]));
  }
  return split;
}

}  // namespace plimsoll::data
