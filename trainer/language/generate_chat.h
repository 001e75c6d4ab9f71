// `plimsoll generate --chat`: a conversation with a model that was trained on chats. Each turn, the
// conversation so far becomes a text by the chat template, which the model continues.
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
  std::string chat_template;          // a Jinja file, or "chatml"; empty: the run's or the model's
  std::optional<std::string> system;  // what the system's turn says, before all others
};

// What a template writes around the words of the assistant's turns.
struct TurnMarks {
  std::string lead;            // white space between the beginning of a turn and its words
  std::optional<int32_t> end;  // the token that ends a turn
  std::string stop;            // the text that ends it, where that is no token; empty: nothing does
};
// Finds the marks in a rendered chat of `system`, a question and an answer. Throws a UserError when
// the template refuses such a chat.
TurnMarks FindTurnMarks(data::ChatRenderer& renderer, const data::Tokenizer& tokenizer,
                        const std::optional<std::string>& system);

// Reads a turn of the user a line from standard input, up to an empty line or the end, and writes
// the assistant's answers to standard output as they appear, each with a line end after it. An
// answer ends as other texts of the model do, and with the template's end of a turn.
//
// The model's context limits a conversation: the oldest turns are left out, with a note, until the
// rest leaves room for `sampling.tokens`, or for a quarter of the context. `sampling.prompt` is not
// used.
//
// UserErrors: there is no template, or nothing to render it with; it refuses the conversation; the
// system's and the user's last turn alone are longer than the context; a line is no UTF-8.
// NotFinite when logits hold NaN or infinity.
void GenerateChat(const ConversationOptions& chat, const std::string& dtype,
                  const GenerateOptions& sampling, const TrainedModel& trained,
                  const data::Tokenizer& tokenizer);

}  // namespace plimsoll::trainer
