// Renders chats with their template: in a child process, by Python's jinja2, in a sandbox set up as
// transformers sets it up (render_chats.py). The text is that of transformers' apply_chat_template.
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

// What a template may take. Beyond it, rendering fails with an error.
struct RenderLimits {
  int64_t seconds = 10;                     // of processor time, for each chat
  int64_t characters = int64_t{64} << 20;   // of a chat's text
  int64_t memory_bytes = int64_t{2} << 30;  // of the process, virtual memory
};

// A part of a text.
struct TextPiece {
  std::string text;
  bool carries_loss = false;
};

class ChatRenderer {
 public:
  // Starts the process. UserErrors: Python or jinja2 is missing, the template is no Jinja,
  // SOURCE_DATE_EPOCH is no date.
  ChatRenderer(const ChatOptions& options, const Tokenizer& tokenizer,
               const RenderLimits& limits = {});
  ~ChatRenderer();
  ChatRenderer(const ChatRenderer&) = delete;
  ChatRenderer& operator=(const ChatRenderer&) = delete;

  // The chat's text, in pieces that are not empty. `where` is the chat's place, "FILE:LINE".
  // UserErrors begin with it and name the template: the template refuses the chat, takes too long
  // or makes too much; or the turns that carry loss cannot be told.
  std::vector<TextPiece> Render(const Chat& chat, const std::string& where);

  // The chat's text and the beginning of the assistant's next turn (transformers'
  // add_generation_prompt), for a model to continue. Fails as Render does.
  std::string RenderPrompt(const Chat& chat, const std::string& where);

  // Of the template, for messages.
  const std::string& name() const { return template_.name; }
  // True if the template asks for the date, and SOURCE_DATE_EPOCH does not fix it: on another day
  // chats may have other texts.
  bool dated() const;

 private:
  struct Child;

  // `answered`: followed by the beginning of the assistant's next turn.
  std::vector<TextPiece> Render(const Chat& chat, bool answered, const std::string& where);
  void Send(const std::string& line, const std::string& where);
  std::string Receive(const std::string& where);
  // The process has ended without an answer.
  [[noreturn]] void FailAsEnded(const std::string& where);

  ChatTemplate template_;
  RenderLimits limits_;
  std::unique_ptr<Child> child_;
  std::string received_;  // after the last line
};

}  // namespace plimsoll::data
