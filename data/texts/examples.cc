#include "data/texts/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/chats/chat.h"
#include "data/chats/span_tokens.h"
#include "data/texts/json_elements.h"
#include "data/texts/preference_pairs.h"
#include "formats/compression.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

std::string LowerName(std::string_view path) {
  std::string name(formats::WithoutCompression(path));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// An example as it is written in a file.
struct Example {
  std::optional<Chat> chat;
  std::string prompt;      // the text without loss; empty if the example has no prompt
  std::string completion;  // carries loss
};

// The members that determine the kind of an example; it must have one of them.
constexpr const char* kForms[] = {"messages",   "conversations", "instruction", "text",
                                  "completion", "answer",        "response"};

std::string FormOf(const formats::JsonObject& object) {
  std::string form;
  for (const char* key : kForms) {
    if (!object.Has(key)) continue;
    if (!form.empty()) {
      object.Fail(key,
                  fmt::format("is given next to {}, and an example has one form; keep one", form));
    }
    form = key;
  }
  if (form.empty() && object.Has("chosen")) {
    object.Fail(
        "chosen",
        "is an answer that was preferred to another; set preference.loss: dpo to learn from "
        "such pairs");
  }
  if (form.empty()) {
    object.Fail("completion",
                "is missing; an example has messages, conversations, instruction and output, "
                "prompt and completion, or text");
  }
  return form;
}

Example ParseExample(std::string_view line, const std::string& where) {
  const formats::JsonObject object = formats::JsonObject::FromText(line, where);
  const std::string form = FormOf(object);
  Example example;
  if (form == "text") {
    example.completion = object.RequireString("text");
  } else if (form == "messages" || form == "conversations" || form == "instruction") {
    example.chat = ParseChat(object, form);
  } else {
    const bool lists = object.json().at(form).is_array();
    if (object.Has("prompt") && object.json().at("prompt").is_array() != lists) {
      object.Fail("prompt", fmt::format("prompt and {} are of different kinds; give two texts, or "
                                        "two lists of messages",
                                        form));
    }
    if (lists) {
      if (form != "completion")
        object.Fail(form,
                    "is a list; lists of messages are prompt and "
                    "completion");
      example.chat = ParseChat(object, form);
      return example;
    }
    example.completion = object.RequireString(form);
    example.prompt = object.RequireString("prompt");
  }
  if (!example.chat && example.prompt.empty() && example.completion.empty()) {
    throw UserError(fmt::format(
        "{}: the example has no text: {}; write some, or remove the example", where,
        form == "text" ? "text is \"\"" : fmt::format("prompt and {} are both \"\"", form)));
  }
  return example;
}

// Writes the result of ExampleReader: a JSON array of the example's place, whether it is a chat,
// and for each piece its text and whether it carries loss.
std::string Write(const std::string& where, bool chat, std::span<const TextPiece> pieces) {
  nlohmann::json record = {where, chat};
  for (const TextPiece& piece : pieces) {
    record.push_back(piece.text);
    record.push_back(piece.carries_loss);
  }
  return record.dump();
}

struct ReadExample {
  std::string where;
  bool chat = false;
  std::vector<TextPiece> pieces;
};

ReadExample Parse(std::string_view text) {
  const nlohmann::json record = nlohmann::json::parse(text);
  ReadExample example = {.where = record.at(0), .chat = record.at(1), .pieces = {}};
  for (size_t i = 2; i + 1 < record.size(); i += 2) {
    example.pieces.push_back({.text = record.at(i), .carries_loss = record.at(i + 1)});
  }
  return example;
}

bool HoldsArray(std::string_view path) { return LowerName(path).ends_with(".json"); }

void EncodeChat(const ReadExample& example, int64_t text_bytes, const Tokenizer& tokenizer,
                ExampleSink sink) {
  const auto tokens = EncodePieces(example.pieces, tokenizer);
  if (!tokens) {
    throw UserError(
        fmt::format("{}: the tokenizer changes this chat so that the tokens of the assistant's "
                    "turns cannot be told; use a byte-level BPE tokenizer, or data.loss_on: all",
                    example.where));
  }
  const std::span<const int32_t> ids = tokens->ids;
  size_t begin = 0;
  for (size_t i = 0; i < example.pieces.size(); ++i) {
    const size_t end = tokens->ends[i];
    const bool last = i + 1 == example.pieces.size();
    sink(ids.subspan(begin, end - begin), last ? text_bytes : 0, example.pieces[i].carries_loss);
    begin = end;
  }
}

// Appends the ids of a text and of what ends it.
void EncodeWithEnd(const std::string& text, const Tokenizer& tokenizer,
                   const std::string& delimiter, Tokenizer::Place place,
                   std::vector<int32_t>* ids) {
  const std::optional<int32_t> end = tokenizer.EndOfText();
  if (end) {
    tokenizer.Encode(text, ids, place);
    ids->push_back(*end);
  } else {
    tokenizer.Encode(text + (delimiter.empty() ? "\n" : DelimiterAfter(text, delimiter)), ids,
                     place);
  }
}

size_t CommonBeginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Encodes a preference pair. In a chat, the answer begins where the ids of the prompt (with the
// beginning of the assistant's turn) and the ids of the complete chat first differ, as in TRL; this
// place is the same in both chats.
void EncodePair(const PairTexts& pair, int64_t text_bytes, const Tokenizer& tokenizer,
                const std::string& delimiter, ExampleSink sink) {
  const std::vector<int32_t> prompt = tokenizer.Encode(pair.prompt);
  std::vector<int32_t> chosen, rejected;
  size_t begin = prompt.size();
  if (pair.chat) {
    chosen = tokenizer.Encode(pair.chosen);
    rejected = tokenizer.Encode(pair.rejected);
    begin = std::min(CommonBeginning(prompt, chosen), CommonBeginning(prompt, rejected));
  } else {
    const Tokenizer::Place place =
        pair.prompt.empty() ? Tokenizer::Place::kStart : Tokenizer::Place::kWithin;
    chosen = rejected = prompt;
    EncodeWithEnd(pair.chosen, tokenizer, delimiter, place, &chosen);
    EncodeWithEnd(pair.rejected, tokenizer, delimiter, place, &rejected);
  }
  const int64_t of_chosen = text_bytes / 2;
  const auto write = [&](std::span<const int32_t> ids, int64_t bytes) {
    sink(ids.first(begin), 0, false);
    sink(ids.subspan(begin), bytes, true);
  };
  write(chosen, of_chosen);
  write(rejected, text_bytes - of_chosen);
}

void EncodeCompletion(const ReadExample& example, int64_t text_bytes, const Tokenizer& tokenizer,
                      const std::string& delimiter, ExampleSink sink) {
  const std::optional<int32_t> end = tokenizer.EndOfText();
  std::vector<int32_t> ids;
  Tokenizer::Place place = Tokenizer::Place::kStart;
  for (size_t i = 0; i < example.pieces.size(); ++i) {
    const bool last = i + 1 == example.pieces.size();
    std::string text = example.pieces[i].text;
    if (last && !end) text += delimiter.empty() ? "\n" : DelimiterAfter(text, delimiter);
    ids.clear();
    tokenizer.Encode(text, &ids, place);
    if (last && end) ids.push_back(*end);
    sink(ids, last ? text_bytes : 0, example.pieces[i].carries_loss);
    place = Tokenizer::Place::kWithin;
  }
}

}  // namespace

bool HoldsExamples(std::string_view path) {
  const std::string name = LowerName(path);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
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

void ForEachExample(const MappedFile& file,
                    FunctionRef<void(std::string_view object, const std::string& where)> visit) {
  if (!HoldsArray(file.path())) return ForEachLine(file, visit);
  JsonElements elements(file.text(), file.path());
  size_t released = 0;
  while (elements.Next()) {
    visit(elements.text(), elements.where());
    if (elements.bytes_read() - released < kReleaseBytes) continue;
    released = elements.bytes_read();
    file.Release();
  }
}

void ExampleReader::StartRenderer(const std::string& where) {
  try {
    ChatOptions options = chats_;
    // A preference pair needs only the texts of its chats, not the spans of the turns.
    if (options.pairs) options.loss_on = LossOn::kAll;
    renderer_.emplace(options, tokenizer_);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()));
  }
}

std::string ExampleReader::ReadPair(std::string_view object, const std::string& where) {
  const PreferencePair pair = ParsePreferencePair(object, where);
  if (!pair.chat()) return WritePair({where, false, pair.prompt, pair.chosen, pair.rejected});
  if (!renderer_) StartRenderer(where);
  const auto text = [&](const std::vector<ChatMessage>& answer) {
    Chat chat = {.messages = pair.prompt_messages, .prompt = pair.prompt_messages.size()};
    chat.messages.insert(chat.messages.end(), answer.begin(), answer.end());
    return renderer_->Render(chat, where).front().text;
  };
  return WritePair({where, true, renderer_->RenderPrompt({.messages = pair.prompt_messages}, where),
                    text(pair.chosen_messages), text(pair.rejected_messages)});
}

std::string ExampleReader::Read(std::string_view object, const std::string& where) {
  if (chats_.pairs) return ReadPair(object, where);
  const Example example = ParseExample(object, where);
  if (example.chat) {
    if (!renderer_) StartRenderer(where);
    return Write(where, true, renderer_->Render(*example.chat, where));
  }
  std::vector<TextPiece> pieces;
  if (!example.prompt.empty()) {
    pieces.push_back({.text = example.prompt, .carries_loss = chats_.loss_on == LossOn::kAll});
  }
  pieces.push_back({.text = example.completion, .carries_loss = true});
  return Write(where, false, pieces);
}

void RequireExamples(const std::vector<MappedFile>& files, int64_t count) {
  if (count > 0) return;
  const MappedFile& first = files.front();
  const int64_t lines = std::ranges::count(first.text(), '\n') + !first.text().ends_with('\n');
  throw UserError(fmt::format(
      "{}: holds no examples: {}{}; write an object for each example, such as "
      R"({{"prompt": "2 + 2 =", "completion": " 4"}})"
      ", or name other files",
      first.path(),
      HoldsArray(first.path()) ? "its array is empty"
      : lines == 1             ? "its only line is blank"
                               : fmt::format("its {} lines are blank", lines),
      files.size() == 1   ? ""
      : files.size() == 2 ? fmt::format("; neither does {}", files.back().path())
                          : fmt::format("; neither do the {} other files", files.size() - 1)));
}

FoundExamples FindExamples(const std::vector<MappedFile>& files, const ChatOptions& chats,
                           const Tokenizer& tokenizer) {
  auto index = std::make_shared<DocumentIndex>(files);
  ExampleReader reader(chats, tokenizer);
  for (const MappedFile& file : files) {
    ForEachExample(file, [&](std::string_view object, const std::string& where) {
      index->Append(reader.Read(object, where));
    });
  }
  RequireExamples(files, index->size());
  index->Finish();
  return {.index = std::move(index), .chats = reader.chats(), .dated = reader.dated()};
}

void CheckFirstExample(std::string_view start, const std::string& path, const ChatOptions& chats,
                       const Tokenizer& tokenizer) {
  const auto check = [&](std::string_view object, const std::string& where) {
    if (chats.pairs) {
      if (ParsePreferencePair(object, where).chat()) FindChatTemplate(chats, tokenizer);
      return;
    }
    if (ParseExample(object, where).chat) FindChatTemplate(chats, tokenizer);
  };
  if (HoldsArray(path)) {
    JsonElements elements(start, path, /*partial=*/true);
    if (elements.Next()) check(elements.text(), elements.where());
    return;
  }
  for (int64_t number = 1;; ++number) {
    const size_t end = start.find('\n');
    if (end == start.npos) return;
    const std::string_view line = start.substr(0, end);
    start.remove_prefix(end + 1);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    return check(line, fmt::format("{}:{}", path, number));
  }
}

void EncodeExample(std::string_view example, const Tokenizer& tokenizer,
                   const std::string& delimiter, ExampleSink sink) {
  if (const std::optional<PairTexts> pair = ParsePair(example)) {
    EncodePair(*pair, std::ssize(example), tokenizer, delimiter, sink);
    return;
  }
  const ReadExample read = Parse(example);
  if (read.chat) {
    EncodeChat(read, std::ssize(example), tokenizer, sink);
  } else {
    EncodeCompletion(read, std::ssize(example), tokenizer, delimiter, sink);
  }
}

void EncodeExamples(const DocumentList& examples, const Tokenizer& tokenizer,
                    const std::string& delimiter, ExampleSink sink) {
  for (int64_t i = 0; i < examples.size(); ++i) {
    EncodeExample(examples[i].text, tokenizer, delimiter, sink);
  }
}

}  // namespace plimsoll::data
