// Renders chats with a chat template: in a child process, with Python's jinja2, in the same sandbox
// as transformers (render_chats.py). The text is that of transformers' apply_chat_template.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/chats/chat.h"
#include "data/chats/chat_template.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// What rendering may take at most. Rendering fails with an error above a limit.
struct RenderLimits {
  int64_t seconds = 10;                     // processor time for each chat
  int64_t characters = int64_t{64} << 20;   // length of a chat's text
  int64_t memory_bytes = int64_t{2} << 30;  // virtual memory of the process
};

// A piece of a chat's text, which carries loss or not.
struct TextPiece {
  std::string text;
  bool carries_loss = false;
};

class ChatRenderer {
 public:
  // Starts the process. UserErrors: Python or jinja2 is missing, the template is not valid Jinja,
  // or SOURCE_DATE_EPOCH is not a date.
  ChatRenderer(const ChatOptions& options, const Tokenizer& tokenizer,
               const RenderLimits& limits = {});
  ~ChatRenderer();
  ChatRenderer(const ChatRenderer&) = delete;
  ChatRenderer& operator=(const ChatRenderer&) = delete;

  // Returns the chat's text in nonempty pieces. `where` is the chat's place, "FILE:LINE". A
  // UserError begins with it and names the template: the template refuses the chat, takes too long
  // or writes too much, or it is not clear which turns carry loss.
  std::vector<TextPiece> Render(const Chat& chat, const std::string& where);

  // Returns the chat's text, followed by the beginning of the assistant's next turn (transformers'
  // add_generation_prompt), for a model to continue. Fails as Render does.
  std::string RenderPrompt(const Chat& chat, const std::string& where);

  // The template's name, for messages.
  const std::string& name() const { return template_.name; }
  // True if the process has ended, after an error, so that it renders no further chat.
  bool ended() const;
  // True if the template asks for the date and SOURCE_DATE_EPOCH does not fix the date. The texts
  // of chats may then change from day to day.
  bool dated() const;

 private:
  struct Child;

  // `answered`: whether the beginning of the assistant's next turn is appended to the text.
  std::vector<TextPiece> Render(const Chat& chat, bool answered, const std::string& where);
  void Send(const std::string& line, const std::string& where);
  std::string Receive(const std::string& where);
  // Throws the error for a process that has ended without an answer.
  [[noreturn]] void FailAsEnded(const std::string& where);

  ChatTemplate template_;
  RenderLimits limits_;
  std::unique_ptr<Child> child_;
  std::string received_;  // bytes received after the last complete line
};

}  // namespace plimsoll::data
