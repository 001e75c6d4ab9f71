#include "data/texts/encode_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/amounts.h"
#include "data/chats/span_tokens.h"
#include "data/texts/documents.h"
#include "data/texts/preference_pairs.h"
#include "data/texts/unreadable_examples.h"

namespace plimsoll::data {
namespace {

ExampleText ParseExample(std::string_view text) {
  const nlohmann::json record = nlohmann::json::parse(text);
  ExampleText example = {
      .where = record.at(0), .chat = record.at(1), .answered = record.at(2), .pieces = {}};
  for (size_t i = 3; i + 1 < record.size(); i += 2) {
    example.pieces.push_back({.text = record.at(i), .carries_loss = record.at(i + 1)});
  }
  return example;
}

size_t CommonBeginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool IsBlank(const Tokenizer& tokenizer, int32_t id) {
  std::string text;
  tokenizer.Decode(id, &text);
  return text.find_first_not_of(" \t\r\n") == text.npos;
}

}  // namespace

// The record is a JSON array of the example's place, whether it is a chat and answered, and for
// each piece its text and whether it carries loss.
std::string WriteExample(const ExampleText& example) {
  nlohmann::json record = {example.where, example.chat, example.answered};
  for (const TextPiece& piece : example.pieces) {
    record.push_back(piece.text);
    record.push_back(piece.carries_loss);
  }
  return record.dump();
}

bool ExampleEncoder::LacksEnd(std::span<const int32_t> ids) {
  ++chats_;
  while (!ids.empty() && IsBlank(tokenizer_, ids.back())) ids = ids.first(ids.size() - 1);
  if (!ids.empty() && tokenizer_.IsEnd(ids.back())) return false;
  const bool chosen = tokenizer_.facts().chosen_end.has_value();
  chats_without_end_ += !chosen;
  return chosen;
}

void ExampleEncoder::EncodeChat(const ExampleText& example, int64_t text_bytes, ExampleSink sink) {
  const auto tokens = EncodePieces(example.pieces, tokenizer_);
  if (!tokens) {
    throw UnreadableExample(
        fmt::format("{}: the tokenizer changes this chat so that the tokens of the assistant's "
                    "turns cannot be told; use a byte-level BPE tokenizer, or data.loss_on: all",
                    example.where));
  }
  const std::span<const int32_t> ids = tokens->ids;
  size_t last_words = example.pieces.size();  // the last piece that carries loss
  for (size_t i = 0; i < example.pieces.size(); ++i) {
    if (example.pieces[i].carries_loss) last_words = i;
  }
  size_t begin = 0;
  bool ends_next = false;  // whether the next piece begins with the end of the words before it
  for (size_t i = 0; i < example.pieces.size(); ++i) {
    const bool last = i + 1 == example.pieces.size();
    const int64_t bytes = last ? text_bytes : 0;
    std::span<const int32_t> piece = ids.subspan(begin, tokens->ends[i] - begin);
    begin = tokens->ends[i];
    if (ends_next && !piece.empty()) {
      sink(piece.first(1), 0, true);
      piece = piece.subspan(1);
    }
    const bool lacks = example.answered && i == last_words && LacksEnd(piece);
    ends_next = lacks && !last && begin < ids.size() && tokenizer_.IsEnd(ids[begin]);
    const bool put = lacks && !ends_next;
    sink(piece, put ? 0 : bytes, example.pieces[i].carries_loss);
    if (put) sink({&*tokenizer_.facts().chosen_end, 1}, bytes, true);
  }
}

void ExampleEncoder::AppendWithEnd(const std::string& text, Tokenizer::Place place,
                                   std::vector<int32_t>* ids) {
  if (const std::optional<int32_t> end = tokenizer_.EndOfText()) {
    tokenizer_.Encode(text, ids, place);
    ids->push_back(*end);
  } else {
    tokenizer_.Encode(text + (delimiter_.empty() ? "\n" : DelimiterAfter(text, delimiter_)), ids,
                      place);
  }
}

// In a chat, the answer begins where the ids of the prompt (with the beginning of the assistant's
// turn) and the ids of the complete chat first differ, as in TRL; this place is the same in both
// chats.
void ExampleEncoder::EncodePair(std::string_view example, ExampleSink sink) {
  const PairTexts pair = ParsePair(example);
  std::vector<int32_t> prompt, chosen, rejected;
  if (!pair.chat) prompt = tokenizer_.facts().begins;
  tokenizer_.Encode(pair.prompt, &prompt);
  size_t begin = prompt.size();
  if (pair.chat) {
    chosen = tokenizer_.Encode(pair.chosen);
    rejected = tokenizer_.Encode(pair.rejected);
    begin = std::min(CommonBeginning(prompt, chosen), CommonBeginning(prompt, rejected));
    if (LacksEnd(std::span(chosen).subspan(begin))) {
      for (std::vector<int32_t>* answer : {&chosen, &rejected}) {
        answer->push_back(*tokenizer_.facts().chosen_end);
      }
    }
  } else {
    const Tokenizer::Place place =
        pair.prompt.empty() ? Tokenizer::Place::kStart : Tokenizer::Place::kWithin;
    chosen = rejected = prompt;
    AppendWithEnd(pair.chosen, place, &chosen);
    AppendWithEnd(pair.rejected, place, &rejected);
  }
  const int64_t text_bytes = std::ssize(example), of_chosen = text_bytes / 2;
  const auto write = [&](std::span<const int32_t> ids, int64_t bytes) {
    sink(ids.first(begin), 0, false);
    sink(ids.subspan(begin), bytes, true);
  };
  write(chosen, of_chosen);
  write(rejected, text_bytes - of_chosen);
}

void ExampleEncoder::EncodeCompletion(const ExampleText& example, int64_t text_bytes,
                                      ExampleSink sink) {
  const std::vector<int32_t>& begins = tokenizer_.facts().begins;
  if (!begins.empty()) sink(begins, 0, false);
  std::vector<int32_t> ids;
  Tokenizer::Place place = Tokenizer::Place::kStart;
  for (size_t i = 0; i < example.pieces.size(); ++i) {
    const TextPiece& piece = example.pieces[i];
    const bool last = i + 1 == example.pieces.size();
    ids.clear();
    if (last) {
      AppendWithEnd(piece.text, place, &ids);
    } else {
      tokenizer_.Encode(piece.text, &ids, place);
    }
    sink(ids, last ? text_bytes : 0, piece.carries_loss);
    place = Tokenizer::Place::kWithin;
  }
}

void ExampleEncoder::Encode(std::string_view example, ExampleSink sink) {
  if (IsPair(example)) return EncodePair(example, sink);
  const ExampleText read = ParseExample(example);
  if (read.chat) {
    EncodeChat(read, std::ssize(example), sink);
  } else {
    EncodeCompletion(read, std::ssize(example), sink);
  }
}

std::string WarningOfEnds(const ExampleEncoder& encoder, const Tokenizer& tokenizer) {
  // A vocabulary of bytes has no token that could be an end.
  if (encoder.chats_without_end() == 0 || !tokenizer.EndOfText()) return "";
  std::string end;
  tokenizer.Decode(*tokenizer.EndOfText(), &end);
  return fmt::format(
      "data.end: no end token after the assistant's last words carries loss in {} of {}, so the "
      "model does not learn to stop there; set it to one, such as \"{}\"",
      encoder.chats_without_end(), Counted(encoder.chats(), "chat"), end);
}

}  // namespace plimsoll::data
