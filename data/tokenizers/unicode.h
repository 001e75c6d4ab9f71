// Properties and forms of Unicode text, as of the version of Unicode that utf8proc has (15.0 with
// utf8proc 2.8). Bytes that are not UTF-8 stay as they are.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

std::string ToNfc(std::string_view text);  // canonical composition
std::string ToNfd(std::string_view text);  // canonical decomposition

// Each character by itself, as Python's str.lower() makes it: U+0130 becomes two characters, and
// a sigma that ends a word becomes σ.
std::string ToLower(std::string_view text);

// The general category, two letters: "Lu", or "Cn" for a code point that is not assigned.
std::string_view CategoryOf(char32_t code);

bool IsAscii(std::string_view text);

// The first and the last character; kNoCharacter for a byte that is not UTF-8, or no text.
inline constexpr char32_t kNoCharacter = 0xffffffff;
char32_t FirstCharacter(std::string_view text);
char32_t LastCharacter(std::string_view text);

// White_Space, as `\s` is in Hugging Face's tokenizers.
bool IsWhiteSpace(char32_t code);
// The bytes of white space that the text begins or ends with.
size_t LeadingWhiteSpace(std::string_view text);
size_t TrailingWhiteSpace(std::string_view text);

// Whether the text's first or last character is one of words, as `\w` is in Hugging Face's
// tokenizers: letters, marks, digits, numbers that are letters, and what connects words.
bool StartsWithWord(std::string_view text);
bool EndsWithWord(std::string_view text);

// Calls visit(sequence, code) for each well-formed sequence; other bytes are passed over.
template <typename Visit>
void ForEachCodePoint(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length > 0) {
      const std::string_view sequence = text.substr(i, length);
      visit(sequence, CodePoint(sequence));
    }
    i += length > 0 ? length : 1;
  }
}

}  // namespace plimsoll::data
