#include "data/chats/span_tokens.h"

#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
namespace {

// The byte offset at which each piece ends in the concatenated text.
std::vector<size_t> EndsOf(std::span<const std::string> pieces) {
  std::vector<size_t> ends;
  size_t end = 0;
  for (const std::string& piece : pieces) ends.push_back(end += piece.size());
  return ends;
}

// For each piece, the number of tokens that begin before the piece ends.
std::vector<size_t> TokensBefore(std::span<const size_t> ends, std::span<const size_t> begins) {
  std::vector<size_t> counts;
  size_t count = 0;
  for (const size_t end : ends) {
    while (count < begins.size() && begins[count] < end) ++count;
    counts.push_back(count);
  }
  if (!counts.empty()) counts.back() = begins.size();
  return counts;
}

}  // namespace

std::optional<std::vector<size_t>> TokenBegins(std::string_view text, std::span<const int32_t> ids,
                                               const Tokenizer& tokenizer) {
  std::vector<size_t> begins;
  std::string bytes;
  size_t at = 0;
  for (const int32_t id : ids) {
    bytes.clear();
    tokenizer.Decode(id, &bytes);
    std::string_view token = bytes, rest = text.substr(at);
    if (!rest.starts_with(token)) {
      const size_t blanks = LeadingWhiteSpace(rest);
      if (token.starts_with(' ') && rest.starts_with(token.substr(1))) {
        token.remove_prefix(1);
      } else if (rest.substr(blanks).starts_with(token)) {
        at += blanks;
      } else {
        return std::nullopt;
      }
    }
    begins.push_back(at);
    at += token.size();
  }
  const std::string_view rest = text.substr(at);
  if (LeadingWhiteSpace(rest) != rest.size()) return std::nullopt;
  return begins;
}

std::optional<PieceTokens> EncodePieces(std::span<const TextPiece> pieces,
                                        const Tokenizer& tokenizer) {
  std::string text;
  std::vector<std::string> parts;
  for (const TextPiece& piece : pieces) text += parts.emplace_back(piece.text);
  PieceTokens tokens;
  tokens.ids = tokenizer.Encode(text);
  if (const auto begins = TokenBegins(text, tokens.ids, tokenizer)) {
    tokens.ends = TokensBefore(EndsOf(parts), *begins);
    return tokens;
  }
  // Some tokenizers normalise to NFC; their tokens then have the bytes of the normalised text.
  std::string composed;
  for (std::string& part : parts) composed += part = ToNfc(part);
  if (composed == ToNfc(text)) {
    if (const auto begins = TokenBegins(composed, tokens.ids, tokenizer)) {
      tokens.ends = TokensBefore(EndsOf(parts), *begins);
      return tokens;
    }
  }
  // Other tokenizers change the text, but may treat each piece separately.
  std::vector<int32_t> ids;
  for (const TextPiece& piece : pieces) {
    tokenizer.Encode(piece.text, &ids,
                     ids.empty() ? Tokenizer::Place::kStart : Tokenizer::Place::kWithin);
    tokens.ends.push_back(ids.size());
  }
  if (ids != tokens.ids) return std::nullopt;
  return tokens;
}

}  // namespace plimsoll::data
