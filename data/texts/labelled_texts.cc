#include "data/texts/labelled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/texts/documents.h"
#include "data/texts/examples.h"
#include "formats/compression.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

LabelledText ParseLine(std::string_view line, const std::string& where, LabelKind kind) {
  const formats::JsonObject object = formats::JsonObject::FromText(line, where);
  LabelledText text = {.text = object.RequireString("text"),
                       .pair = std::nullopt,
                       .label = ParseLabel(object, where, kind)};
  if (object.Has("text_pair")) text.pair = object.RequireString("text_pair");
  return text;
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f") == text.npos; }

}  // namespace

std::vector<LabelledText> ReadLabelledLines(const std::vector<MappedFile>& files, LabelKind kind) {
  std::vector<LabelledText> texts;
  for (const MappedFile& file : files) {
    if (IsBlank(file.text())) throw UserError(file.path() + ": is empty; give it a line a text");
    ForEachLine(file, [&](std::string_view line, const std::string& where) {
      texts.push_back(ParseLine(line, where, kind));
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
                       .label = {.names = {path.stem().string()}, .where = file.path()}});
    });
    if (texts.size() > before) continue;
    throw UserError(file.path() + ": holds no text; leave it out (data.exclude)");
  }
  return texts;
}

LabelledSplit SplitByClass(std::vector<LabelledText> texts, LabelKind kind, double fraction,
                           uint64_t seed) {
  const bool one_class = kind == LabelKind::kClass;
  std::map<std::string, std::vector<size_t>> by_class;
  for (size_t i = 0; i < texts.size(); ++i) {
    by_class[one_class ? texts[i].label.names.front() : ""].push_back(i);
  }
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
    throw UserError(fmt::format(
        "data.eval_fraction: {} of {} texts{} holds out none; give more texts or a "
        "larger fraction",
        fraction, texts.size(), one_class ? fmt::format(" in {} classes", by_class.size()) : ""));
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
