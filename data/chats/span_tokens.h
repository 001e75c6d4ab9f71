// Tokens of a text of which parts carry loss.
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

// The ids of a text, and the tokens [begin, end) of each of its pieces.
struct PieceTokens {
  std::vector<int32_t> ids;
  std::vector<size_t> ends;  // [pieces], ascending; the last is ids.size()
};

// The pieces' text is encoded as a whole: the ids are those of Tokenizer::Encode. A token belongs
// to the piece that it begins in. nullopt: the tokenizer changes the text so that where its tokens
// begin cannot be told.
std::optional<PieceTokens> EncodePieces(std::span<const TextPiece> pieces,
                                        const Tokenizer& tokenizer);

// Where each token begins in the text that they encode, in bytes. Follows the tokens' own bytes
// through the text; white space that a token takes, and a space that the tokenizer puts before a
// text, may be missing on either side. nullopt: the bytes differ.
std::optional<std::vector<size_t>> TokenBegins(std::string_view text, std::span<const int32_t> ids,
                                               const Tokenizer& tokenizer);

}  // namespace plimsoll::data
