#include "data/texts/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/compression.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

struct Example {
  std::string prompt;      // without loss; empty: there is none
  std::string completion;  // with loss
};

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
      for (const char* key : {"messages", "conversations", "instruction"}) {
        if (!object.Has(key)) continue;
        object.Fail(key,
                    "is of another form; write what the model is to read as prompt, as its chat "
                    "template has it, and its answer as completion");
      }
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
  std::string name(formats::WithoutCompression(path));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

void ForEachLine(const MappedFile& file,
                 FunctionRef<void(std::string_view line, const std::string& where)> visit) {
  std::string_view text = file.text();
  size_t read = 0;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") != line.npos) {
      visit(line, fmt::format("{}:{}", file.path(), number));
    }
    read += line.size() + 1;
    if (read < kReleaseBytes) continue;
    read = 0;
    file.Release();
  }
}

std::shared_ptr<const DocumentIndex> FindExamples(const std::vector<MappedFile>& files) {
  auto index = std::make_shared<DocumentIndex>(files);
  for (const MappedFile& file : files) {
    ForEachLine(file, [&](std::string_view line, const std::string& where) {
      (void)ParseExample(line, where);
      index->Append(line);
    });
  }
  index->Finish();
  return index;
}

void CheckFirstExample(std::string_view start, const std::string& path) {
  for (int64_t number = 1;; ++number) {
    const size_t end = start.find('\n');
    if (end == start.npos) return;
    const std::string_view line = start.substr(0, end);
    start.remove_prefix(end + 1);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    ParseExample(line, fmt::format("{}:{}", path, number));
    return;
  }
}

void EncodeExamples(
    const DocumentList& lines, const Tokenizer& tokenizer, const std::string& delimiter,
    const std::string& name,
    FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss)> sink) {
  const std::optional<int32_t> end = tokenizer.EndOfText();
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i].text;
    const Example example = ParseExample(line, name);
    ids.clear();
    tokenizer.Encode(example.prompt, &ids);
    sink(ids, 0, /*carries_loss=*/false);
    std::string completion = example.completion;
    if (!end) completion += delimiter.empty() ? "\n" : DelimiterBehind(completion, delimiter);
    ids.clear();
    tokenizer.Encode(completion, &ids,
                     example.prompt.empty() ? Tokenizer::Place::kStart : Tokenizer::Place::kWithin);
    if (end) ids.push_back(*end);
    sink(ids, std::ssize(line), /*carries_loss=*/true);
  }
}

}  // namespace plimsoll::data
