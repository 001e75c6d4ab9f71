#include "trainer/language/generate_chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/message.h"
#include "data/chats/chat_template.h"
#include "data/tokenizers/unicode.h"
#include "trainer/language/generate.h"
#include "trainer/language/not_finite.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/chat_template_file.h"

namespace plimsoll::trainer {
namespace {

constexpr const char* kUser = "user";
constexpr const char* kAssistant = "assistant";

// Chooses the template: --chat-template; otherwise the run's template, the tokenizer's own, or the
// template next to the weights, in this order.
data::ChatOptions TemplateOptions(const ConversationOptions& chat, const TrainedModel& trained,
                                  const data::Tokenizer& tokenizer) {
  data::ChatOptions options;
  options.loss_on = data::LossOn::kAll;
  options.key = "--chat-template";
  options.chat_template = chat.chat_template;
  if (!chat.chat_template.empty()) return options;
  const std::string beside = trained.weights + "/" + data::kChatTemplateFile;
  const std::string runs = ChatTemplateOfRun(trained);
  if (!runs.empty() && (runs == "chatml" || Exists(runs) || !Exists(beside))) {
    options.chat_template = runs;
    options.key = "data.chat_template";
  } else if (!runs.empty()) {
    options.chat_template = beside;  // a copy of the run's template
  } else {
    const std::string& folder = tokenizer.facts().folder;
    const bool has_own = !folder.empty() && data::ChatTemplateIn(folder, options.key);
    if (!has_own && Exists(beside)) options.chat_template = beside;
  }
  return options;
}

void RequireUtf8(std::string_view text, const std::string& where) {
  data::ForEachUtf8Run(text, [&](std::string_view, bool valid) {
    if (!valid) throw UserError(where + ": is no UTF-8; give text in UTF-8");
  });
}

// The turns so far, and their rendered text.
class Conversation {
 public:
  Conversation(data::ChatRenderer& renderer, const data::Tokenizer& tokenizer,
               const std::optional<std::string>& system, int64_t context)
      : renderer_(renderer), tokenizer_(tokenizer), context_(context) {
    if (system) chat_.messages.push_back({"system", *system});
    first_ = chat_.messages.size();
  }

  // Adds a turn of the user, and returns the ids to continue, at most as many as the context holds.
  // Drops the oldest turns while an answer of `room` tokens does not fit. If a UserError refuses
  // the turn, nothing changes.
  std::vector<int32_t> Ask(std::string words, int64_t room, const std::string& where) {
    data::Chat chat = chat_;
    chat.messages.push_back({kUser, std::move(words)});
    int64_t left_out = 0;
    std::vector<int32_t> ids = Encode(chat, where);
    // The last drawn token is never an input.
    while (std::ssize(ids) + room - 1 > context_ && chat.messages.size() > first_ + 2) {
      const auto oldest = chat.messages.begin() + static_cast<int64_t>(first_);
      chat.messages.erase(oldest, oldest + 2);
      left_out += 2;
      ids = Encode(chat, where);
    }
    if (std::ssize(ids) > context_) {
      throw UserError(fmt::format(
          "{}: this turn{} takes {}, more than the context of {}; shorten it, or give a "
          "longer --sequence if the model allows it",
          where, first_ > 0 ? ", with the system's," : "", Counted(ids.size(), "token"), context_));
    }
    if (left_out > 0) {
      PrintNote(fmt::format(
          "the conversation is longer than the context of {}: its oldest {} {} left "
          "out from here on\n",
          Counted(context_, "token"), Counted(left_out, "turn"), left_out == 1 ? "is" : "are"));
    }
    chat_ = std::move(chat);
    return ids;
  }

  void Answer(std::string words) { chat_.messages.push_back({kAssistant, std::move(words)}); }

 private:
  std::vector<int32_t> Encode(const data::Chat& chat, const std::string& where) {
    std::vector<int32_t> ids = tokenizer_.Encode(renderer_.RenderPrompt(chat, where));
    if (ids.empty()) {
      throw UserError(
          fmt::format("{}: the chat template ({}) makes no text of the conversation; "
                      "give another template",
                      where, renderer_.name()));
    }
    return ids;
  }

  data::ChatRenderer& renderer_;
  const data::Tokenizer& tokenizer_;
  int64_t context_;
  data::Chat chat_;
  size_t first_;  // index of the first message after the system's message
};

// Reads the user's lines; on a terminal, shows a prompt.
class Lines {
 public:
  // The user's next turn; nullopt means that the conversation ends.
  std::optional<std::string> Next() {
    if (terminal_) PrintNote("> ");
    std::string line;
    if (!std::getline(std::cin, line)) {
      if (terminal_) PrintNote("\n");
      return std::nullopt;
    }
    ++number_;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) return std::nullopt;
    return line;
  }
  bool terminal() const { return terminal_; }
  std::string where() const { return fmt::format("standard input:{}", number_); }

 private:
  bool terminal_ = isatty(STDIN_FILENO) == 1;
  int64_t number_ = 0;
};

// Prints an answer as it grows, and stores it without the template's leading white space.
class Answer {
 public:
  explicit Answer(std::string_view lead) : lead_(lead) {}

  void Add(std::string_view piece) {
    while (!lead_.empty() && piece.starts_with(lead_.front())) {
      lead_.remove_prefix(1);
      piece.remove_prefix(1);
    }
    if (piece.empty()) return;
    lead_ = {};
    text_ += piece;
    PrintAnswer(piece);
  }
  const std::string& text() const { return text_; }

 private:
  std::string_view lead_;
  std::string text_;
};

struct Totals {
  int64_t answers = 0;
  int64_t tokens = 0;
  double seconds = 0;
};

void PrintTotals(const Totals& totals, const CompiledStep& compiled) {
  const InferenceMemory memory = MemoryOf(compiled);
  PrintNote(fmt::format("{} of {} in {:.3f} s\narena {}: weights {}, cache {}, rest {}\n",
                        Counted(totals.answers, "answer"), Counted(totals.tokens, "token"),
                        totals.seconds, FormatBytes(memory.arena), FormatBytes(memory.weights),
                        FormatBytes(memory.cache), FormatBytes(memory.rest)));
}

// Whether a token looks like a mark of tokenizers: <|im_end|>, </s> or [/INST].
bool IsWrittenAsMark(std::string_view token) {
  return token.size() > 2 && ((token.starts_with('<') && token.ends_with('>')) ||
                              (token.starts_with('[') && token.ends_with(']')));
}

}  // namespace

TurnMarks FindTurnMarks(data::ChatRenderer& renderer, const data::Tokenizer& tokenizer,
                        const std::optional<std::string>& system) {
  const std::string where = system ? "--chat with --system" : "--chat";
  const std::string words = "Yes";
  data::Chat chat;
  if (system) chat.messages.push_back({"system", *system});
  chat.messages.push_back({kUser, "?"});
  const std::string prompt = renderer.RenderPrompt(chat, where);
  chat.messages.push_back({kAssistant, words});
  std::string text;
  for (const data::TextPiece& piece : renderer.Render(chat, where)) text += piece.text;
  const size_t begin = text.rfind(words);
  if (begin == text.npos) {
    throw UserError(fmt::format(
        "{}: the chat template ({}) leaves out the words of the assistant; give another template",
        where, renderer.name()));
  }

  TurnMarks marks;
  if (text.starts_with(prompt) && begin > prompt.size()) {
    const std::string between = text.substr(prompt.size(), begin - prompt.size());
    if (data::LeadingWhiteSpace(between) == between.size()) marks.lead = between;
  }
  // Some templates end a chat, but not a turn, with another token after white space (Phi 3).
  std::string_view after = std::string_view(text).substr(begin + words.size());
  after.remove_prefix(data::LeadingWhiteSpace(after));
  after = after.substr(0, after.find_first_of(" \t\r\n"));
  if (after.empty()) return marks;
  const std::vector<int32_t> ids = tokenizer.Encode(after);
  if (!ids.empty()) {
    std::string token;
    tokenizer.Decode(ids.front(), &token);
    if (ids.size() == 1 || IsWrittenAsMark(token)) {
      marks.end = ids.front();
      return marks;
    }
  }
  marks.stop = after;
  return marks;
}

void GenerateChat(const ConversationOptions& chat, const std::string& dtype,
                  const GenerateOptions& given, const TrainedModel& trained,
                  const data::Tokenizer& tokenizer) {
  if (chat.system) RequireUtf8(*chat.system, "--system");
  data::ChatRenderer renderer(TemplateOptions(chat, trained, tokenizer), tokenizer);
  const TurnMarks marks = FindTurnMarks(renderer, tokenizer, chat.system);
  GenerateOptions sampling = given;
  if (marks.end) sampling.ends.push_back(*marks.end);
  if (!marks.stop.empty()) sampling.stop.push_back(marks.stop);

  CompileOptions options = InferenceOptions(trained, dtype);
  const int64_t context = trained.config().model.sequence();
  options.generate_rows = 1;
  options.generate_context = context;
  ThreadPool pool(options.threads);
  const std::unique_ptr<runtime::Device> device = MakeDevice(trained.config(), pool);
  Session session(Compile(*trained.model, options), *device);
  LoadTrained(trained, session);
  NextToken next(session);

  Conversation conversation(renderer, tokenizer, chat.system, context);
  const int64_t room = std::min(given.tokens, std::max<int64_t>(1, context / 4));
  Lines lines;
  Totals totals;
  while (auto line = lines.Next()) {
    std::vector<int32_t> prompt;
    try {
      RequireUtf8(*line, lines.where());
      prompt = conversation.Ask(*std::move(line), room, lines.where());
    } catch (const UserError& error) {
      if (!lines.terminal()) throw;
      PrintWarning(error.what());  // the user can try another turn
      continue;
    }
    sampling.tokens = std::min(given.tokens, context - std::ssize(prompt) + 1);
    Answer answer(marks.lead);
    Generated generated;
    try {
      generated = Continue(next, tokenizer, prompt, sampling,
                           [&](const std::string& piece) { answer.Add(piece); });
    } catch (const NotFinite& error) {
      PrintAnswer("\n");
      throw ExplainNotFinite(trained, session, dtype, error.what());
    }
    PrintAnswer("\n");
    if (generated.ended == 0 && sampling.tokens < given.tokens) {
      PrintNote(
          fmt::format("the answer is cut off: with it, the conversation fills the context of {}\n",
                      Counted(context, "token")));
    }
    conversation.Answer(answer.text());
    ++totals.answers;
    totals.tokens += generated.tokens;
    totals.seconds += generated.prompt_seconds + generated.seconds;
    ++sampling.seed;  // otherwise each answer would repeat the draws
  }
  PrintTotals(totals, session.compiled());
}

}  // namespace plimsoll::trainer
