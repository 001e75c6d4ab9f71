// UTF-8, and properties and forms of Unicode text. The version of Unicode is that of utf8proc (15.0
// with utf8proc 2.8). Bytes that are not UTF-8 are kept.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::data {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The code point of a well-formed UTF-8 sequence.
char32_t CodePoint(std::string_view sequence);

// The length of the well-formed UTF-8 sequence at the beginning of `text`; 0 without one. If
// the sequence is cut off, also returns 0 and sets `*incomplete`.
size_t Utf8Length(std::string_view text, bool* incomplete = nullptr);

// Calls visit(run, valid) for each maximal run of well-formed UTF-8, and for each maximal run of
// other bytes.
template <typename Visit>
void ForEachUtf8Run(std::string_view text, Visit visit) {
  size_t begin = 0;
  bool run_valid = true;
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const bool valid = length > 0;
    if (valid != run_valid) {
      if (i > begin) visit(text.substr(begin, i - begin), run_valid);
      begin = i;
      run_valid = valid;
    }
    i += valid ? length : 1;
  }
  if (begin < text.size()) visit(text.substr(begin), run_valid);
}

// Outputs bytes as complete UTF-8 sequences: holds back an incomplete sequence, and outputs U+FFFD
// for bytes that are not UTF-8.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  std::string Finish();  // outputs the bytes held back, as U+FFFD

 private:
  std::string pending_;
};

std::string ToNfc(std::string_view text);  // canonical composition
std::string ToNfd(std::string_view text);  // canonical decomposition

// Lower-cases each character by itself, as Python's str.lower() does: U+0130 becomes two
// characters, and a sigma at the end of a word becomes σ.
std::string ToLower(std::string_view text);

// The general category, two letters: "Lu"; "Cn" for an unassigned code point.
std::string_view CategoryOf(char32_t code);

bool IsAscii(std::string_view text);

// The first and the last character; kNoCharacter for a byte that is not UTF-8, or for empty text.
inline constexpr char32_t kNoCharacter = 0xffffffff;
char32_t FirstCharacter(std::string_view text);
char32_t LastCharacter(std::string_view text);

// Whether the character is White_Space, which `\s` matches in Hugging Face's tokenizers.
bool IsWhiteSpace(char32_t code);
// The length in bytes of the white space at the text's beginning and end.
size_t LeadingWhiteSpace(std::string_view text);
size_t TrailingWhiteSpace(std::string_view text);

// Whether the text's first or last character is a word character, which `\w` matches in Hugging
// Face's tokenizers: letters, marks, digits, letter numbers and connectors.
bool StartsWithWord(std::string_view text);
bool EndsWithWord(std::string_view text);

// Calls visit(sequence, code) for each well-formed sequence; skips other bytes.
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
