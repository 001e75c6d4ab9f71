#include "trainer/data/examples.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "formats/compression.h"
#include "formats/json.h"
#include "trainer/data/documents.h"

namespace plimsoll::data {
namespace {

constexpr const char* kCompletions[] = {"completion", "answer", "response"};

Example ParseExample(std::string_view line, const std::string& where) {
  const formats::JsonObject object = formats::JsonObject::FromText(line, where);
  Example example;
  std::string found;
  for (const char* key : kCompletions) {
    if (!object.Has(key)) continue;
    if (!found.empty()) object.Fail(key, "stands beside " + found + "; keep one");
    found = key;
    example.completion = object.RequireString(key);
  }
  if (object.Has("text")) {
    if (!found.empty()) object.Fail("text", "stands beside " + found + "; keep one");
    example.completion = object.RequireString("text");
  } else {
    if (found.empty()) {
      object.Fail("completion", "is missing; an example has prompt and completion, or text");
    }
    example.prompt = object.RequireString("prompt");
  }
  if (example.prompt.empty() && example.completion.empty()) {
    throw UserError(where + ": the example is empty");
  }
  return example;
}

}  // namespace

bool HoldsExamples(std::string_view path) {
  return formats::WithoutCompression(path).ends_with(".jsonl");
}

void ForEachLine(
    const std::vector<MappedFile>& files,
    const std::function<void(std::string_view line, const std::string& where)>& visit) {
  for (const MappedFile& file : files) {
    std::string_view text = file.text();
    for (int64_t number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == text.npos ? text.size() : end + 1);
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      visit(line, fmt::format("{}:{}", file.path(), number));
    }
  }
}

std::vector<Example> ReadExamples(const std::vector<MappedFile>& files) {
  std::vector<Example> examples;
  ForEachLine(files, [&](std::string_view line, const std::string& where) {
    examples.push_back(ParseExample(line, where));
  });
  return examples;
}

ExampleSplit SplitExamples(std::vector<Example> examples, double eval_fraction, uint64_t seed) {
  const size_t count = examples.size();
  const auto held_out = static_cast<size_t>(std::ceil(static_cast<double>(count) * eval_fraction));
  if (held_out >= count) {
    throw UserError(fmt::format(
        "data.eval_fraction: {} of {} examples would hold out {} and leave none to train on; give "
        "more examples or a smaller fraction",
        eval_fraction, count, held_out));
  }
  ExampleSplit split;
  const Permutation order(count, seed);
  for (size_t i = 0; i < count; ++i) {
    (i < count - held_out ? split.train : split.eval).push_back(std::move(examples[order(i)]));
  }
  return split;
}

SourceList EncodeExamples(const std::vector<Example>& examples, const Tokenizer& tokenizer,
                          const std::string& delimiter, std::string name) {
  if (examples.empty()) return {};
  const std::optional<int32_t> end = tokenizer.EndOfText();
  std::vector<int32_t> ids;
  std::vector<bool> carries_loss;
  for (const Example& example : examples) {
    tokenizer.Encode(example.prompt, &ids);
    carries_loss.resize(ids.size(), false);
    std::string completion = example.completion;
    if (!end && delimiter.empty()) completion += '\n';
    if (!end && !delimiter.empty()) AppendDelimiter(delimiter, &completion);
    tokenizer.Encode(completion, &ids,
                     example.prompt.empty() ? Tokenizer::Place::kStart : Tokenizer::Place::kWithin);
    if (end) ids.push_back(*end);
    carries_loss.resize(ids.size(), true);
  }
  return {MakeMemorySource(std::move(name), std::move(ids), std::move(carries_loss))};
}

}  // namespace plimsoll::data
