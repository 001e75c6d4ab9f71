// `plimsoll generate --chat`: a conversation with a model trained on chats. In each turn, the chat
// template converts the conversation so far to a text, which the model continues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/chats/chat_renderer.h"
#include "data/tokenizers/tokenizer.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

struct GenerateOptions;

struct ConversationOptions {
  bool asked = false;
  std::string chat_template;  // a Jinja file, or "chatml"; empty means the run's or the model's
  std::optional<std::string> system;  // text of the system's turn, which comes first
};

// The text that a template adds around the assistant's turns.
struct TurnMarks {
  std::string lead;            // white space between a turn's beginning and its text
  std::optional<int32_t> end;  // the token that ends a turn
  std::string stop;            // the text that ends a turn if no token does; empty if no text does
};
// Finds the marks by rendering a chat of `system`, a question and an answer. Throws a UserError if
// the template refuses such a chat.
TurnMarks FindTurnMarks(data::ChatRenderer& renderer, const data::Tokenizer& tokenizer,
                        const std::optional<std::string>& system);

// Reads the user's turns from standard input, each up to an empty line or the end of input. Writes
// the assistant's answers to standard output as they grow, each followed by a line end. An answer
// ends like other texts of the model, and at the template's end of a turn.
//
// The model's context limits a conversation: the oldest turns are dropped, with a note, until there
// is room for `sampling.tokens`, or for a quarter of the context. `sampling.prompt` is not used.
//
// Throws a UserError if no template exists or it cannot be rendered, if the template refuses the
// conversation, if the system's turn and the user's last turn alone exceed the context, or if a
// line is not UTF-8. Throws NotFinite if logits contain NaN or infinity.
void GenerateChat(const ConversationOptions& chat, const std::string& dtype,
                  const GenerateOptions& sampling, const TrainedModel& trained,
                  const data::Tokenizer& tokenizer);

}  // namespace plimsoll::trainer
