// Encodes a text in which only some pieces carry loss.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chats/chat_renderer.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// The token ids of a text; the tokens of piece i end at ends[i].
struct PieceTokens {
  std::vector<int32_t> ids;
  std::vector<size_t> ends;  // [pieces], ascending; the last is ids.size()
};

// Encodes the concatenated text of the pieces; the ids are those of Tokenizer::Encode. A token
// belongs to the piece in which it begins. Returns nullopt if the tokenizer changes the text so
// much that the beginnings of its tokens are unknown.
std::optional<PieceTokens> EncodePieces(std::span<const TextPiece> pieces,
                                        const Tokenizer& tokenizer);

// Returns the byte offset in `text` at which each token begins. The function matches the tokens'
// own bytes with the text. Two differences are allowed: white space that a token absorbs, and a
// space that the tokenizer inserts before a text. Returns nullopt if other bytes differ.
std::optional<std::vector<size_t>> TokenBegins(std::string_view text, std::span<const int32_t> ids,
                                               const Tokenizer& tokenizer);

}  // namespace plimsoll::data
