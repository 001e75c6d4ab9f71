// Encodes examples that ExampleReader (examples.h) has converted.
//
// A prompt and its completion are encoded separately, so that no token spans both. They begin with
// the tokenizer's begin tokens, which never carry loss, and end with its end-of-text token or,
// without one, with `delimiter` on a line of its own (a newline if the delimiter is empty). The
// answers of a preference are encoded likewise, each after the same prompt.
//
// A chat is encoded in one piece and begins and ends as its template says. If the assistant has the
// last turn, and no end token after its words carries loss, the token of data.end is put there; an
// end token that the template writes next carries loss in its place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "data/chats/chat_renderer.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// A text or a chat as ExampleReader converts it. `where` is its place, "FILE:LINE".
struct ExampleText {
  std::string where;
  bool chat = false;
  bool answered = false;          // whether a chat's last turn is the assistant's
  std::vector<TextPiece> pieces;  // in a text: the prompt, if any, and the completion
};
std::string WriteExample(const ExampleText& example);

// Receives the ids of a text in one or more calls. `carries_loss`: whether these ids carry loss as
// targets. `text_bytes`: 0, except in the last call for a text, so that the receiver knows where
// texts end. In that call it is the size of the example as ExampleReader converted it; each of the
// two texts of a preference has half of this size.
using ExampleSink =
    FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss)>;

class ExampleEncoder {
 public:
  // `tokenizer` must outlive the encoder.
  ExampleEncoder(const Tokenizer& tokenizer, std::string delimiter)
      : tokenizer_(tokenizer), delimiter_(std::move(delimiter)) {}

  // Encodes the result of ExampleReader::Read. UserErrors name the file and line; the sink has
  // then received nothing.
  void Encode(std::string_view example, ExampleSink sink);

  int64_t chats() const { return chats_; }
  // Chats in which no end token after the assistant's last words carries loss.
  int64_t chats_without_end() const { return chats_without_end_; }

 private:
  void EncodeChat(const ExampleText& example, int64_t text_bytes, ExampleSink sink);
  void EncodeCompletion(const ExampleText& example, int64_t text_bytes, ExampleSink sink);
  void EncodePair(std::string_view example, ExampleSink sink);
  void AppendWithEnd(const std::string& text, Tokenizer::Place place, std::vector<int32_t>* ids);
  // Whether no end token is among the last tokens of `ids`, which carry loss, and data.end asks for
  // one. Counts the chat if nothing ends it.
  bool LacksEnd(std::span<const int32_t> ids);

  const Tokenizer& tokenizer_;
  std::string delimiter_;
  int64_t chats_ = 0, chats_without_end_ = 0;
};

// A warning that models learn no end from these chats; empty if all of them have one.
std::string WarningOfEnds(const ExampleEncoder& encoder, const Tokenizer& tokenizer);

}  // namespace plimsoll::data
