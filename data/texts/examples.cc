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
#include "data/texts/encode_examples.h"
#include "data/texts/example_members.h"
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

// Whether the member is the text of an instruction with its answer, as Alpaca's own files have it.
bool IsRendered(const formats::JsonObject& object, const std::string& key) {
  if (key != "text" || !object.json().at(key).is_string()) return false;
  const auto& text = object.json().at(key).get_ref<const std::string&>();
  return text.find(object.GetString("instruction", "")) != text.npos &&
         text.find(object.GetString("output", "")) != text.npos;
}

std::string FormOf(const formats::JsonObject& object) {
  std::string form;
  for (const char* key : kForms) {
    if (!object.Has(key) || (form == "instruction" && IsRendered(object, key))) continue;
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
  RefuseWrittenLists(object);
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
      if (form != "completion") {
        object.Fail(form, "is a list; lists of messages are prompt and completion");
      }
      example.chat = ParseChat(object, form);
    } else {
      example.completion = object.RequireString(form);
      example.prompt = object.RequireString("prompt");
      RequireNoChat(object);
    }
  }
  CheckMembers(object, form);
  if (!example.chat && example.prompt.empty() && example.completion.empty()) {
    throw UserError(fmt::format(
        "{}: the example has no text: {}; write some, or remove the example", where,
        form == "text" ? "text is \"\"" : fmt::format("prompt and {} are both \"\"", form)));
  }
  return example;
}

// Returns the result of read(), whose UserErrors are about one example.
template <typename Read>
auto OfExample(const Read& read) {
  try {
    return read();
  } catch (const UserError& error) {
    throw UnreadableExample(error.what());
  }
}

bool HoldsArray(std::string_view path) { return LowerName(path).ends_with(".json"); }

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

ChatRenderer& ExampleReader::Renderer(const std::string& where) {
  if (renderer_) return *renderer_;
  try {
    ChatOptions options = chats_;
    // A preference pair needs only the texts of its chats, not the spans of the turns.
    if (options.pairs) options.loss_on = LossOn::kAll;
    renderer_.emplace(options, tokenizer_);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()));
  }
  has_chats_ = true;
  dated_ |= renderer_->dated();
  return *renderer_;
}

template <typename Render>
auto ExampleReader::WithRenderer(const std::string& where, const Render& render) {
  ChatRenderer& renderer = Renderer(where);
  try {
    return render(renderer);
  } catch (const UserError& error) {
    if (renderer.ended()) renderer_.reset();  // the next chat starts another process
    throw UnreadableExample(error.what());
  }
}

std::string ExampleReader::ReadPair(std::string_view object, const std::string& where) {
  const PreferencePair pair = OfExample([&] { return ParsePreferencePair(object, where); });
  if (!pair.chat()) return WritePair({where, false, pair.prompt, pair.chosen, pair.rejected});
  return WithRenderer(where, [&](ChatRenderer& renderer) {
    Chat chat = {.messages = pair.prompt_messages,
                 .prompt = pair.prompt_messages.size(),
                 .variables = pair.variables};
    const std::string prompt = renderer.RenderPrompt(chat, where);
    const auto text = [&](const std::vector<ChatMessage>& answer) {
      Chat whole = chat;
      whole.messages.insert(whole.messages.end(), answer.begin(), answer.end());
      return renderer.Render(whole, where).front().text;
    };
    return WritePair(
        {where, true, prompt, text(pair.chosen_messages), text(pair.rejected_messages)});
  });
}

std::string ExampleReader::Read(std::string_view object, const std::string& where) {
  if (chats_.pairs) return ReadPair(object, where);
  Example example = OfExample([&] { return ParseExample(object, where); });
  if (example.chat) {
    return WithRenderer(where, [&](ChatRenderer& renderer) {
      const bool answered = example.chat->messages.back().role == "assistant";
      return WriteExample({where, true, answered, renderer.Render(*example.chat, where)});
    });
  }
  std::vector<TextPiece> pieces;
  if (!example.prompt.empty()) {
    pieces.push_back({.text = example.prompt, .carries_loss = chats_.loss_on == LossOn::kAll});
  }
  pieces.push_back({.text = example.completion, .carries_loss = true});
  return WriteExample({where, false, false, std::move(pieces)});
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
                           const OnUnreadable& unreadable, const Tokenizer& tokenizer) {
  auto index = std::make_shared<DocumentIndex>(files);
  ExampleReader reader(chats, tokenizer);
  FoundExamples found = {.index = index, .unreadable = UnreadableExamples(unreadable)};
  for (const MappedFile& file : files) {
    ForEachExample(file, [&](std::string_view object, const std::string& where) {
      found.unreadable.Try([&] { index->Append(reader.Read(object, where)); });
    });
  }
  found.examples = index->size() + found.unreadable.count();
  RequireExamples(files, found.examples);
  found.unreadable.Require(found.examples);
  index->Finish();
  found.chats = reader.chats();
  found.dated = reader.dated();
  return found;
}

void CheckFirstExample(std::string_view start, const std::string& path, const ChatOptions& chats,
                       const OnUnreadable& unreadable, const Tokenizer& tokenizer) {
  const auto is_chat = [&](std::string_view object, const std::string& where) {
    try {
      return chats.pairs ? ParsePreferencePair(object, where).chat()
                         : ParseExample(object, where).chat.has_value();
    } catch (const UserError&) {
      if (!unreadable.skip) throw;
      return false;
    }
  };
  const auto check = [&](std::string_view object, const std::string& where) {
    if (is_chat(object, where)) FindChatTemplate(chats, tokenizer);
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

}  // namespace plimsoll::data
